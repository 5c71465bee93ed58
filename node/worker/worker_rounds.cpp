// A peer's rounds: how they begin and end, and what the data plane answers.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "method.h"
#include "worker.h"

namespace gossamer::node {
namespace {

constexpr double kLately_s = 0.5;

}  // namespace

void Worker::settle() {
  while (phase_ == Phase::training && !last_round_ended_ && !held_ && gradient_done_ && unmixed_ == 0)
    end_round();
  flush();
  advance_save();
  if (phase_ == Phase::training && last_round_ended_ && exchange_->awaits().empty()) drain();
  schedule_wake();
}

void Worker::begin_round() {
  last_round_ended_ = trained();
  if (last_round_ended_) return;  // settle goes on
  round_began_ = env_.now();
  if (spec_.observer) spec_.observer->on_round(spec_.membership.self, round_);
  if (round_ <= spec_.plan.exchange.dense_rounds) result_.dense_data_bytes = result().traffic.data_bytes_out;
  gradient_done_ = false;
  unmixed_ = spec_.plan.parts();
  if (round_ >= measure_at_) {
    measure_at_ = round_ + kMeasuredEvery;
    submit(op::Measure{round_});
  }
  through_ = unmixed_ > 0 ? std::numeric_limits<Round>::max() : round_;  // a model of tables has no parcels
  Gradient gradient{round_, {}};
  if (pace_) begin_at_pace(gradient);
  exchange_->begin_round(gradient);
  for (ParcelId p = 0; p < spec_.plan.parts(); ++p)
    gradient.on_ready.push_back(exchange_->on_ready(round_, p));
  computing_ = true;
  env_.data().submit(std::move(gradient));
}

/// Of local steps the last are the ones that are left out.
void Worker::begin_at_pace(Gradient& gradient) {
  pace_->begin(round_, round_began_);
  const ExchangeSettings& e = spec_.plan.exchange;
  if (e.straggler == "fewer") {
    const Round step = round_ % local_steps(e);
    if (step == 0 || steps_ == 0) steps_ = pace_->steps();
    gradient.idle = step >= steps_;
  } else if (const auto deadline = pace_->deadline()) {
    overdue_at_ = round_began_ + *deadline;
  }
}

void Worker::check_overdue() {
  if (phase_ != Phase::training || !overdue_at_ || env_.now() < *overdue_at_) return;
  overdue_at_.reset();
  exchange_->on_overdue();
}

void Worker::end_round() {
  overdue_at_.reset();
  const Round before = round_;
  round_ = through_ + 1;
  if (!samples_) round_ = std::min(round_, spec_.rounds);
  result_.rounds = round_;
  round_took_ = env_.now() - round_began_;
  const double computed = std::max(computed_, round_began_);
  result_.waited_s += env_.now() - computed;
  env_.traced({.what = "wait",
               .track = TraceSpan::Track::rounds,
               .begin_s = computed,
               .end_s = env_.now(),
               .round = static_cast<std::int64_t>(before)});
  const double kept = std::exp(-round_took_ / kLately_s);  // single rounds come in bursts
  lately_s_ = kept * lately_s_ + round_took_;
  lately_rounds_ = kept * lately_rounds_ + static_cast<double>(round_ - before);
  stall_.on_round(round_took_);
  count_own_samples();
  const bool last = trained();
  const double every = static_cast<double>(spec_.evaluate_every);
  if (every > 0 && !last && place(round_) >= next_evaluation_) {
    env_.data().submit_evaluation(round_);
    next_evaluation_ = (std::floor(place(round_) / every) + 1) * every;
  }
  if (env_.now() >= since_.time + spec_.report_every_s || last) report(std::nullopt);
  if (last) check_diverged(watch_.at_end());
  if (saver_.on_round(round_, env_.now(), mean_round_s())) spread_news(0);
  held_ = must_hold();
  held_since_ = env_.now();
  if (phase_ == Phase::training && !held_) begin_round();
}

void Worker::count_own_samples() {
  if (samples_ && samples_->count(own_samples())) spread_news(samples_after());
}

void Worker::end_after_round(bool ends) {
  ends_after_round_ = ends;
  flushing_ = flushed_ = false;
  settle();
}

/// Messages that are being encoded leave before the answer comes.
void Worker::flush() {
  if (!ends_after_round_ || !held_ || std::exchange(flushing_, true)) return;
  submit(op::Measure{round_});
}

void Worker::wind_up() {
  winding_up_ = true;
  hold_at_ = round_;
  if (gradient_done_ && !wound_up()) end_step_alone();
}

void Worker::end_step_alone() {
  overdue_at_.reset();
  exchange_->end_alone();
  result_.rounds = round_ + 1;  // to its exchange the round goes on
  count_own_samples();
  held_ = true;
}

void Worker::restore(const State& state) {
  archive(Archive::restoring(state).part("control"));
  if (!samples_ && rounds() > spec_.rounds)
    throw StateError(fmt::format(
        "the saved state is of round {}; this run has {}: expected a length of at least as many (run.epochs, "
        "run.rounds)",
        rounds(), spec_.rounds));
  spec_.rounds -= std::min(spec_.rounds, spec_.rounds_before);
  spec_.epochs_before.reset();
  if (Archive control = Archive::restoring(state).part("control"); control.has("epoch")) {
    double saved = 0;
    control.value("epoch", saved);
    spec_.epochs_before = 0;
    spec_.epochs_before = saved - epoch();
  }
  first_round_ = result_.rounds = round_;
  first_rows_ = result_.rows;
  env_.data().restore(state, Kept::all);
}

void Worker::archive(Archive archive) {
  double epochs = epoch();
  if (!archive.restores()) archive.value("epoch", epochs);
  archive.value("round", round_);
  archive.value("rounds_before", spec_.rounds_before);
  archive.value("share_before", spec_.share_before);
  archive.value("rows", result_.rows);
  archive.value("staleness_max", result_.staleness_max);
  archive.value("staleness_sum", staleness_sum_);
  archive.value("staleness_count", staleness_count_);
  archive.value("left_out", result_.left_out);
  archive.value("skipped_steps", result_.skipped_steps);
  archive.value("skipped_running", skipped_running_);
  archive.value("measure_at", measure_at_);
  archive.value("next_evaluation", next_evaluation_);
  std::vector<double> losses(recent_losses_.begin(), recent_losses_.end());
  archive.doubles("recent_losses", losses);
  recent_losses_.assign(losses.begin(), losses.end());
  watch_.archive(archive.part("watch"));
  if (samples_) {
    if (archive.restores()) count_samples();
    samples_->archive(archive.part("samples"));
  }
  exchange_->archive(archive.part("exchange"));
}

void Worker::drain() {
  result_.seconds = env_.now() - started_;
  phase_ = Phase::draining;
  drain_until_ = env_.now() + spec_.drain_timeout_s;
  members_.set(spec_.membership.self, PeerStatus::done);
  submit(op::Measure{round_});
  next_counts_ = 0;
  broadcast_alive();
  check_members();
}

void Worker::mixed(ParcelId parcel, std::optional<Round> through) {
  if (spec_.observer) spec_.observer->on_mixed(spec_.membership.self, round_, parcel);
  through_ = std::min(through_, through.value_or(round_));
  assert(unmixed_ > 0);
  --unmixed_;
}

bool Worker::goes_ahead(Round next) {
  if (ahead_ == next) return true;
  const bool may_rest = winding_up_ || ends_after_round_ || end_by_ || (hold_at_ && next >= *hold_at_) ||
                        saver_.beyond(next) || saver_.parting() || (saver_.on() && !spec_.saves.together);
  if (phase_ != Phase::training || samples_ || may_rest || next >= spec_.rounds) return false;
  ahead_ = next;
  return true;
}

void Worker::saw_staleness(Round rounds) {
  staleness_sum_ += static_cast<double>(rounds);
  ++staleness_count_;
  since_.staleness = std::max(since_.staleness, rounds);
  result_.staleness_max = std::max(result_.staleness_max, rounds);
}

// --- the data plane's answers

void Worker::on_data(const DataEvent& event) {
  if (const auto* done = std::get_if<GradientDone>(&event); done && std::exchange(computing_, false))
    if (phase_ == Phase::over) result_.rows += done->rows;
  if (phase_ == Phase::over) return;
  std::visit([&](const auto& e) { handle(e); }, event);
  settle();
}

void Worker::handle(const ParcelReady& e) { exchange_->on_parcel_ready(e.round, e.parcel); }
void Worker::handle(const Encoded& e) { exchange_->on_encoded(e); }
void Worker::handle(const Evaluated& e) {
  tested_ = e.test;
  report(e.test);
}
void Worker::handle(const Failed& e) { e.diverged ? diverge(e.what) : end(Outcome::failed, e.what); }

void Worker::handle(const GradientDone& e) {
  gradient_done_ = true;
  computed_ = env_.now();
  env_.traced({.what = e.idle ? "idle" : "compute",
               .track = TraceSpan::Track::rounds,
               .begin_s = round_began_,
               .end_s = computed_,
               .round = static_cast<std::int64_t>(round_)});
  if (pace_) pace_->computed(round_, e.idle ? 0 : env_.now() - round_began_);
  count_step(e);
  if (winding_up_ && !wound_up()) end_step_alone();
}

void Worker::count_step(const GradientDone& e) {
  if (e.idle) return void(++result_.idle_steps);
  result_.rows += e.rows;
  since_.rows += e.rows;
  count_skipped(e.skipped);
  if (e.skipped) return;  // its loss may be anything
  since_.loss += e.loss;
  watch_.on_loss(e.loss);
  ++since_.steps;
  recent_losses_.push_back(e.loss);
  if (static_cast<double>(recent_losses_.size()) > std::max(1.0, spec_.rounds_per_epoch))
    recent_losses_.pop_front();
}

}  // namespace gossamer::node
