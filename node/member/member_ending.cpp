// How a member's view ends, and what it takes along.
#include <algorithm>
#include <limits>
#include <utility>

#include "hash.h"
#include "member.h"
#include "view_env.h"

namespace gossamer::node {
namespace {

/// A step may wait for data that do not come.
constexpr double kLeastPatience_s = 1, kMostPatience_s = 10, kPatienceInRounds = 2;

}  // namespace

/// Where members may be apart the step that is being computed is not thrown away: the next view is agreed on
/// while the worker takes it, and says already how far the run is then. False where the view ends at once.
bool Member::wind_up() {
  if (!worker_ || !worker_->joined() || !spec_.steps_alone || worker_->finished()) return false;
  if (!winding_up_ && worker_->share_after_step() >= 1) return false;
  leave(current_);
  if (std::exchange(winding_up_, true)) return true;
  share_ = worker_->share_after_step();
  count_rounds(share_);
  learned_ = {};  // as of before this view
  standing_.hash = standing_.bytes = 0;
  step_by_ = env_.now() + patience();
  worker_->wind_up();
  return true;
}

double Member::patience() const {
  return std::clamp(kPatienceInRounds * worker_->mean_round_s(), kLeastPatience_s, kMostPatience_s);
}

/// All that had learned something have left, one of them at the end of the run: who begins anew alone would
/// do again what is done.
bool Member::all_are_done() const {
  if (whole_ || winding_up_) return false;
  bool done = false;
  for (const auto& [peer, record] : swim_->members()) {
    const Standing s = standing_from(record.word);
    if (peer == name() || !s.whole) continue;
    if (record.status != MemberStatus::left) return false;
    done |= s.share >= 1;
  }
  return done;
}

/// For those who come when it has left.
void Member::say_done() {
  Standing done = standing_;
  done.begun = done.whole = true;
  done.share = 1;
  say(std::move(done));
}

/// How far another of the view was as it announced another one.
std::optional<double> Member::share_elsewhere(const Seat& seat) const {
  const auto record = swim_->members().find(seat.name);
  if (seat.name == name() || record == swim_->members().end() || record->second.start != seat.start)
    return std::nullopt;
  const Standing s = standing_from(record->second.word);
  const bool elsewhere = s.view != 0 && (s.view != standing_.view || s.attempt != standing_.attempt);
  return elsewhere ? std::optional(s.share) : std::nullopt;
}

/// Where its step cannot be kept the round that is under way is ended before the view is, as long as all that
/// are in it go on with it: who comes costs the others no step. Who has announced another view, and is no
/// farther, does not.
bool Member::ends_round(const View& next) {
  if (spec_.steps_alone || !worker_ || !worker_->joined() || worker_->round_is_over()) return false;
  for (const Seat& seat : run_.seats) {
    if (std::find(next.seats.begin(), next.seats.end(), seat) == next.seats.end()) return false;
    const auto share = share_elsewhere(seat);
    if (share && !worker_->wound_up() && *share <= worker_->share_done()) return false;
  }
  if (!std::exchange(ending_round_, true)) {
    step_by_ = env_.now() + patience();
    worker_->end_after_round(true);
  }
  return env_.now() < step_by_;
}

/// Where a peer has gone the round that is under way cannot be ended, but what it goes by can: the gradient
/// goes along to the next view. But who is less far, as that peer went in the midst of sums, waits for this
/// one's state, and has no gradient at it. (step_by_: it may wait for data.)
bool Member::ends_gradient() {
  if (!spec_.keeps_gradient || !worker_ || !worker_->computing()) return false;
  for (const Seat& seat : run_.seats)
    if (const auto share = share_elsewhere(seat); share && *share < worker_->share_done()) return false;
  if (!std::exchange(ending_gradient_, true)) step_by_ = env_.now() + patience();
  return env_.now() < step_by_;
}

bool Member::step_over() const {
  const bool over = winding_up_ ? worker_->wound_up() : worker_->round_is_over();
  return over || env_.now() >= step_by_;
}

void Member::close_view() {
  transfer_.reset();
  parts_.clear();
  leave(current_);
  end_worker();
}

void Member::count_own() {
  base_ = worker_->share_before();
  own_samples_ = worker_->own_samples();
  part_share_ = worker_->own_share();
}

void Member::end_worker() {
  askers_.clear();  // what the data plane would have answered goes with it: they ask again
  if (!worker_) return;
  if (worker_->joined() && !winding_up_) count_rounds(worker_->share_done());
  failed_attempts_ = worker_->joined() ? 0 : failed_attempts_ + 1;
  WorkerResult r = worker_->result();
  for (auto& [peer, counts] : r.refused) peer = view_env_->numbers[peer];
  add_earlier(r, before_);
  before_ = std::move(r);
  // also where it has not joined: others may have begun, and told how far they are
  if (!winding_up_) share_ = std::max(share_, worker_->share_done());
  count_own();
  rounds_ = worker_->rounds();
  State state = env_.leave_view(with_starts());
  worker_.reset();
  winding_up_ = ending_round_ = ending_gradient_ = false;
  worker_wake_ = std::numeric_limits<double>::infinity();
  if (whole_) keep(std::move(state));
}

/// Where all must be alike also as others can have it, and compare it.
void Member::keep(State learned) {
  if (spec_.alike) {
    drop_own_rows(learned);  // all go on with one table, in which its peer's stand whole
    State own = take_own(learned);
    learned_ = to_bytes(learned);
    learned.merge(own);
    standing_.hash = hash_bytes(learned_);
    standing_.bytes = learned_.size();
  } else {
    learned_ = {};
    standing_.hash = standing_.bytes = 0;
  }
  kept_ = std::move(learned);
}

}  // namespace gossamer::node
