// What a peer says of itself: how far it is, its reports, whom it misses, that it diverges or stands still,
// its result.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker.h"

namespace gossamer::node {

double Worker::place(Round round) const {
  const double before = spec_.share_before;
  if (samples_)
    return (before + (1 - before) * std::min(1.0, samples_->share())) * static_cast<double>(all_rounds());
  return static_cast<double>(spec_.rounds_before + round);
}

/// The run's peers, and so the rounds of an epoch, may have been others before.
double Worker::epoch() const {
  const double begin = samples_ ? spec_.share_before * static_cast<double>(all_rounds())
                                : static_cast<double>(spec_.rounds_before);
  const double each = spec_.rounds_per_epoch;
  return spec_.epochs_before.value_or(begin / each) + (place(round_) - begin) / each;
}

double Worker::share_done() const { return place(round_) / static_cast<double>(all_rounds()); }

double Worker::share_after_step() const {
  if (samples_ || wound_up()) return share_done();
  return place(round_ + 1) / static_cast<double>(all_rounds());
}

std::optional<Round> Worker::staleness_of(PeerId link) const {
  const auto newest = used_.contains(link) ? used_[link] : std::nullopt;
  return newest ? std::optional(round_ - std::min(round_, *newest)) : std::nullopt;
}

std::string Worker::where() const {
  return samples_ ? fmt::format("in round {}, {:.1f} % of the run", rounds(), 100 * share_done())
                  : fmt::format("in round {} of {}", rounds(), all_rounds());
}

/// Of a round that is not over: what is missing.
std::string Worker::awaited() const {
  constexpr std::size_t kMostNamed = 4;
  if (phase_ != Phase::training) return "";
  if (!gradient_done_) return "; it was computing its own gradient";
  const std::vector<Awaited> all = exchange_->awaits();
  std::string text = all.empty() ? "; it was busy with what had come" : "; it was waiting for ";
  for (std::size_t k = 0; k < std::min(all.size(), kMostNamed); ++k)
    text += fmt::format("{}{}'s parcel {} of round {}", k ? ", " : "", spec_.membership.names[all[k].peer],
                        all[k].parcel, all[k].round);
  return all.size() > kMostNamed ? fmt::format("{} and {} more", text, all.size() - kMostNamed) : text;
}

bool Worker::waits_for(PeerId link) const {
  if (phase_ == Phase::joining) return !in_touch();
  if (phase_ != Phase::training || !gradient_done_) return false;
  const std::vector<Awaited> all = exchange_->awaits();
  return std::any_of(all.begin(), all.end(), [&](const Awaited& a) { return a.peer == link; });
}

std::string Worker::what_others_said() const {
  const auto told = [&](PeerStatus status, const char* text) {
    return fmt::format(fmt::runtime(text), fmt::join(members_.names_with(status), ", "));
  };
  if (members_.any(PeerStatus::muted))
    return told(PeerStatus::muted, "peer {} was muted by a neighbour (payloads in its name did not decode)");
  if (members_.any(PeerStatus::diverged)) return told(PeerStatus::diverged, "peer {} diverged");
  if (members_.any(PeerStatus::lost)) return told(PeerStatus::lost, "lost peer {} (no sign of life)");
  return members_.any(PeerStatus::left) ? told(PeerStatus::left, "peer {} left") : "";
}

void Worker::check_stalled() {
  const bool for_others = saver_.due(round_) && looked_at_ == look_at_ && !saving_ && env_.may_checkpoint();
  stall_.on_time(env_.now(), phase_ == Phase::training && gradient_done_ && (!held_ || for_others));
  if (!stall_.stalled()) return;
  end(Outcome::stalled, fmt::format("stalled {}: no end of a round for {:.4g} s with all peers alive "
                                    "(run.stall_timeout){}",
                                    where(), stall_.waited_s(), awaited()));
}

void Worker::join_overdue() {
  const auto missing = members_.names_with(PeerStatus::unknown),
             apart = members_.names_with(PeerStatus::started);
  std::string what = fmt::format("not all peers appeared within {} s (--join-timeout): {} {}",
                                 spec_.membership.join_timeout_s,
                                 missing.empty() ? "not connected to all their neighbours:" : "missing",
                                 fmt::join(missing.empty() ? apart : missing, ", "));
  if (!other_session_.empty())
    what += fmt::format(
        "; a peer '{}' of another run of this job is there: end it, or give all peers of this run the "
        "same --session",
        other_session_);
  end_without_others(std::move(what));
}

void Worker::diverge(const std::string& what) {
  result_.diverged = true;
  end(Outcome::failed, divergence_text(spec_.plan, spec_.learning_rate, rounds(), what),
      PeerStatus::diverged);
}

void Worker::count_skipped(bool skipped) {
  skipped_running_ = skipped ? skipped_running_ + 1 : 0;
  if (!skipped) return;
  if (result_.skipped_steps++ == 0)
    env_.log(
        fmt::format("skipped the step of round {}: its loss or gradient is not finite. Further ones are "
                    "counted",
                    round_));
  if (spec_.skip_limit > 0 && skipped_running_ >= spec_.skip_limit)
    check_diverged(fmt::format("the loss or gradient was not finite in {} step{} running (run.skip_limit)",
                               skipped_running_, skipped_running_ == 1 ? "" : "s"));
}

void Worker::handle(const Measured& e) {
  check_diverged(watch_.on_norm(e.norm));
  if (held_ && e.round == round_) {
    looked_at_ = look_at_;
    flushed_ = flushing_;
  }
  if (phase_ == Phase::draining && e.round == round_) last_measured_ = true;
  check_members();
}

WorkerResult Worker::result() const {
  WorkerResult r = result_;
  r.rounds_here = r.rounds - first_round_;
  const Round dense = spec_.plan.exchange.dense_rounds;
  r.dense_rounds_here = std::min(r.rounds, dense) - std::min(first_round_, dense);
  r.rows_here = r.rows - first_rows_;
  r.rounds += spec_.rounds_before;
  if (phase_ == Phase::training) r.seconds = env_.now() - started_;
  r.train_loss = std::accumulate(recent_losses_.begin(), recent_losses_.end(), 0.0) /
                 static_cast<double>(recent_losses_.size());  // NaN where there was no step
  r.staleness_mean = staleness_count_ ? staleness_sum_ / static_cast<double>(staleness_count_) : 0;
  r.dropped_control = env_.dropped_control();
  for (const PeerId p : members_.links()) {
    const LinkCounters& c = links_[p]->counters();
    if (muted(p)) r.muted.push_back(spec_.membership.names[p]);
    if (c.refused() > 0) r.refused.emplace_back(p, c.refused_by);
    r.traffic.bytes_out += c.bytes_out;
    r.traffic.bytes_in += c.bytes_in;
    r.traffic.data_bytes_out += c.data_bytes_out;
    r.traffic.data_entries_out += c.data_entries_out;
    r.traffic.resent += c.resent;
    r.traffic.duplicates += c.duplicates;
    r.traffic.reordered += c.reordered;
    for (std::size_t why = 0; why < kRefusals.size(); ++why) r.traffic.refused_by[why] += c.refused_by[why];
  }
  return r;
}

void add_earlier(WorkerResult& now, const WorkerResult& before) {
  if (before.rows > 0) {
    const auto rows = [](const WorkerResult& r) { return static_cast<double>(r.rows); };
    now.staleness_mean =
        (now.staleness_mean * rows(now) + before.staleness_mean * rows(before)) / (rows(now) + rows(before));
    if (now.rows == 0) now.train_loss = before.train_loss;
  }
  now.staleness_max = std::max(now.staleness_max, before.staleness_max);
  now.rounds = std::max(now.rounds, before.rounds);
  now.checkpoints += before.checkpoints;
  now.checkpoint_pause_s += before.checkpoint_pause_s;
  now.waited_s += before.waited_s;
  now.rows += before.rows;
  now.rounds_here += before.rounds_here;
  now.dense_rounds_here += before.dense_rounds_here;
  now.rows_here += before.rows_here;
  now.seconds += before.seconds;
  now.left_out += before.left_out;
  now.dense_data_bytes += before.dense_data_bytes;
  now.dropped_frames += before.dropped_frames;
  now.skipped_steps += before.skipped_steps;
  now.closed_without += before.closed_without;
  now.idle_steps += before.idle_steps;
  now.held_back += before.held_back;
  now.queued_bytes_most = std::max(now.queued_bytes_most, before.queued_bytes_most);
  now.dropped_control = std::max(now.dropped_control, before.dropped_control);  // a process counts them
  for (const auto& [peer, counts] : before.refused) {
    const auto same = std::find_if(now.refused.begin(), now.refused.end(),
                                   [p = peer](const auto& r) { return r.first == p; });
    if (same == now.refused.end()) {
      now.refused.emplace_back(peer, counts);
      continue;
    }
    for (std::size_t why = 0; why < kRefusals.size(); ++why) same->second[why] += counts[why];
  }
  for (const std::string& name : before.muted)
    if (std::find(now.muted.begin(), now.muted.end(), name) == now.muted.end()) now.muted.push_back(name);
  LinkCounters& t = now.traffic;
  const LinkCounters& b = before.traffic;
  t.bytes_out += b.bytes_out;
  t.bytes_in += b.bytes_in;
  t.data_bytes_out += b.data_bytes_out;
  t.data_entries_out += b.data_entries_out;
  t.resent += b.resent;
  t.duplicates += b.duplicates;
  t.reordered += b.reordered;
  for (std::size_t why = 0; why < kRefusals.size(); ++why) t.refused_by[why] += b.refused_by[why];
}

void Worker::report(const std::optional<optim::Figures>& test) {
  const double now = env_.now(), seconds = std::max(now - since_.time, 1e-9);
  const LinkCounters sums = result().traffic;
  Report r;
  r.round = rounds();
  r.epoch = epoch();
  r.share_done = share_done();
  r.loss = since_.steps ? since_.loss / static_cast<double>(since_.steps) : std::nan("");
  r.rows_per_second = static_cast<double>(since_.rows) / seconds;
  r.bytes_out_per_second = static_cast<double>(sums.bytes_out - since_.bytes_out) / seconds;
  r.bytes_in_per_second = static_cast<double>(sums.bytes_in - since_.bytes_in) / seconds;
  r.staleness = static_cast<double>(since_.staleness);
  r.skipped_steps = result_.skipped_steps;
  r.held_back = result_.held_back;
  for (const PeerId p : members_.links()) r.queued_bytes += queued_for(p);
  r.peers = spec_.membership.names.size();
  r.test = test;
  env_.report(r);
  if (test) return;  // an evaluation interrupts no interval
  since_ = {};
  since_.time = now;
  since_.bytes_out = sums.bytes_out;
  since_.bytes_in = sums.bytes_in;
  check_diverged(watch_.on_report(r.loss));
}

}  // namespace gossamer::node
