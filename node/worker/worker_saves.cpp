// How a peer holds between two rounds, is saved there, and goes on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "worker.h"

namespace gossamer::node {
namespace {

/// How long a peer waits for the checkpoint before to be written, until it passes one over.
constexpr double kMostSaveWait_s = 60;
constexpr double kSaveNewsAfter_s = 0.005;

}  // namespace

State Env::load(Round name) {
  throw std::logic_error(fmt::format("there is no checkpoint of round {} here", name));
}

bool Worker::holds() const {
  const bool received =
      std::all_of(links_.begin(), links_.end(), [](const auto& l) { return l->all_received(); });
  return phase_ == Phase::training && held_ && !saving_ && received && exchange_->awaits().empty();
}

void Worker::save() {
  snapshot_asked_ = true;
  env_.data().submit_snapshot(round_);
}

void Worker::resume() {
  hold_at_.reset();
  settle();
}

bool Worker::must_hold() const {
  if (ends_after_round_ || (hold_at_ && round_ >= *hold_at_)) return true;
  if (trained()) return false;
  return saving_ || saver_.due(round_) || (end_by_ && saver_.all_taken()) || saver_.parting();
}

/// Takes the checkpoint that is due, or goes on where none is.
void Worker::advance_save() {
  if (phase_ != Phase::training || !held_ || saving_ || snapshot_asked_ || winding_up_) return;
  const auto name = trained() ? std::nullopt : saver_.due(round_);
  if (!name) {
    if (must_hold()) return;
    held_ = false;
    save_by_ = 0;
    result_.checkpoint_pause_s += env_.now() - held_since_;
    return begin_round();
  }
  if (!looked_at(*name) || (saver_.keeps() && !written_or_late())) return;
  if (spec_.saves.together) {
    if (!holds()) return;
    if (saver_.hold(*name)) spread_news(0);
    if (!saver_.agreed(*name)) return;
  }
  save_by_ = 0;
  if (!saver_.keeps()) {
    taken(*name);
    check_ending();
    return advance_save();
  }
  if (env_.may_checkpoint()) {
    saving_ = name;
    return env_.data().submit_snapshot(round_);
  }
  env_.log(
      fmt::format("the checkpoint of round {} was passed over: the one before it was not written in time; is "
                  "the disk slow, or gone?",
                  *name));
  taken(*name);
  advance_save();
}

/// The checkpoint before has been written, or has failed; or it has been waited for long enough, and others
/// wait with this peer. So when all hold, all know what each has.
bool Worker::written_or_late() {
  if (env_.may_checkpoint()) return true;
  const double patience =
      spec_.stall_timeout_s > 0 ? std::min(kMostSaveWait_s, spec_.stall_timeout_s / 2) : kMostSaveWait_s;
  if (save_by_ == 0) save_by_ = env_.now() + patience;
  return env_.now() >= save_by_;
}

/// What has run away is not saved. When the answer is there, so are those to all that was submitted before:
/// nothing more is sent.
bool Worker::looked_at(Round name) {
  if (look_at_ != name) submit(op::Measure{round_});
  look_at_ = name;
  return looked_at_ == name;
}

SavePoint Worker::save_point(Round name) const {
  return {spec_.rounds_before + name, offers_.run(), share_done(), epoch(), tested_};
}

void Worker::handle(const Saved& e) {
  archive(Archive::saving(*e.state).part("control"));
  if (std::exchange(snapshot_asked_, false)) return env_.saved(e.state);
  const Round name = *std::exchange(saving_, std::nullopt);
  taken(name);
  ++result_.checkpoints;
  env_.checkpoint(e.state, save_point(name));
  tested_.clear();  // a later checkpoint holds other parameters
  check_ending();
}

void Worker::taken(Round name) {
  saver_.taken(name, env_.now());
  spread_news(kSaveNewsAfter_s);
  deliver_set_aside();
}

bool Worker::waits_for_save(const Message& message) const {
  return phase_ == Phase::training && saver_.beyond(message.round);
}

/// What came of peers that had gone on, as far as it need not wait any more.
void Worker::deliver_set_aside() {
  std::deque<std::pair<PeerId, Message>> waiting;
  std::swap(waiting, set_aside_);
  for (auto& [from, message] : waiting) {
    // it was judged by what the method knew when it came: of two that say the same, one is enough
    const auto due = exchange_->judge(from, message.round, message.parcel, message.tag);
    if (waits_for_save(message) || due.when == Verdict::When::now || phase_ != Phase::training)
      deliver(from, std::move(message));
    else
      consumed(from, message);
  }
  for (const PeerId p : members_.links())
    while (auto m = link(p).next()) deliver(p, std::move(*m));
}

void Worker::committed(Round name) {
  if (saver_.committed(name - spec_.rounds_before)) spread_news(kSaveNewsAfter_s);
  check_ending();
  settle();
}

std::optional<Round> Worker::saved_by_all() const {
  const Round whole = saver_.news().whole;
  return whole > 0 ? std::optional(spec_.rounds_before + whole) : std::nullopt;
}

std::optional<Round> Worker::best_saved() const {
  const SaveNews& news = saver_.news();
  return news.judged > 0 ? std::optional(spec_.rounds_before + news.best) : std::nullopt;
}

void Worker::judge(Round best, Round as_of) {
  if (best <= spec_.rounds_before) return;
  if (saver_.judge(best - spec_.rounds_before, as_of - spec_.rounds_before)) spread_news(kSaveNewsAfter_s);
}

void Worker::interrupt() {
  if (end_by_ || phase_ == Phase::over) return;
  const bool saves = saver_.on() && spec_.grace_s > 0 && phase_ == Phase::training && !trained();
  if (!saves) return end(Outcome::interrupted, "interrupted " + where());
  end_by_ = env_.now() + spec_.grace_s;
  env_.log(fmt::format(
      "{}, for {:.4g} s at most (run.grace); once more ends it at once",
      spec_.saves.leave ? "told to end: waiting until nothing is under way" : "saving before the end",
      spec_.grace_s));
  env_.data().hurry();
  const bool news = spec_.saves.leave && saver_.leave();
  // one that waits for samples says better how fast rounds come than those before it
  const double pace_s = std::max(mean_round_s(), env_.now() - round_began_);
  if (saver_.ask(told_up_to(), pace_s) || news) spread_news(0);
  settle();
}

/// That which goes on without this peer lacks nothing that it sent.
bool Worker::at_rest() const {
  return held_ && !saving_ && saver_.may_leave() &&
         std::all_of(links_.begin(), links_.end(), [](const auto& l) { return l->all_received(); });
}

/// Who leaves before all have saved would end the others' run before they have, or what they share.
void Worker::check_ending() {
  if (!end_by_ || phase_ != Phase::training) return;
  if (spec_.saves.leave && (!saver_.all_leave() || !saver_.keeps())) {
    if (at_rest())
      end(Outcome::interrupted, fmt::format("told to end, and left {}", where()));
    else if (env_.now() >= *end_by_)
      end(Outcome::interrupted,
          fmt::format("told to end, and left {} before all were at rest, after {:.4g} s (run.grace)", where(),
                      spec_.grace_s));
    return;
  }
  if (saver_.all_committed())
    end(Outcome::interrupted, fmt::format("interrupted {}; all saved it after round {}", where(),
                                          spec_.rounds_before + saver_.news().at));
  else if (env_.now() >= *end_by_)
    end(Outcome::interrupted,
        fmt::format("interrupted {}; not all saved it within {:.4g} s (run.grace)", where(), spec_.grace_s));
}

/// Where all have told from which checkpoints they can go on.
void Worker::go_on_from_offers() {
  if (!spec_.offers || phase_ != Phase::joining || !offers_.complete()) return;
  const auto name = offers_.newest_common();
  if (resumed_ && resumed_ == name) return;
  if (resumed_)
    return end(
        Outcome::bad_input,
        fmt::format("a peer was started anew while the others joined, with other checkpoints: they go on "
                    "from round {}, and it cannot; start all peers again",
                    *resumed_));
  if (!name) {
    std::vector<std::string> each;
    for (PeerId p = 0; p < offers_.by_peer().size(); ++p)
      each.push_back(fmt::format("{} has {}", spec_.membership.names[p],
                                 offers_.by_peer()[p].rounds.empty()
                                     ? "none"
                                     : fmt::format("{}", fmt::join(offers_.by_peer()[p].rounds, ", "))));
    return end(Outcome::bad_input,
               fmt::format("no checkpoint is whole at all peers: {}; expected one of the same round in the "
                           "folder of each (--resume)",
                           fmt::join(each, "; ")));
  }
  resumed_ = name;
  try {
    restore(env_.load(*name));
  } catch (const std::exception& error) {
    return end(Outcome::failed, fmt::format("cannot go on from round {}: {}", *name, error.what()));
  }
  env_.log(fmt::format("going on from the checkpoint of round {}", *name));
  if (members_.become_ready()) spread_news(0);
}

}  // namespace gossamer::node
