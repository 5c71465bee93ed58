// What a member does where the network has fallen apart, and when its sides meet again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "hash.h"
#include "member.h"
#include "replica.h"
#include "text.h"
#include "view_env.h"

namespace gossamer::node {
namespace {

constexpr double kNearTheEnd = 0.9;
constexpr double kPartPatience_s = 5;  ///< without a piece of another side's model
constexpr std::size_t kNamed = 16;     ///< of those that it is cut off from

}  // namespace

// --- who may go on

/// The worker's view is over, and was run, up to that share of the run.
void Member::count_rounds(double share) {
  const double rounds = rounds_per_share_ * std::max(0.0, share - worker_->share_before());
  for (const Seat& seat : run_.seats)
    holds_[{seat.name, seat.start}] += static_cast<std::uint64_t>(std::llround(rounds));
  const auto& known = swim_->members();
  std::erase_if(holds_, [&](const auto& h) { return !known.contains(h.first.first); });
  ran_ = run_;
  last_entered_ = run_.id() + run_.attempt;
  entered_ = {run_};
  trained_out_.clear();
  // long before the end others say that they are done when they end for want of someone
  for (const Seat& seat : run_.seats)
    if (worker_->share_done() > kNearTheEnd && is_done(seat.name)) trained_out_.insert(seat.name);
}

/// Its process is known to be gone, or it left, or has nothing more to do.
bool Member::has_ended(const Seat& seat) const {
  if (trained_out_.contains(seat.name)) return true;
  const auto record = swim_->members().find(seat.name);
  if (record == swim_->members().end()) return seat.start != 0;  // for an hour
  const MemberRecord& r = record->second;
  return (seat.start != 0 && r.start > seat.start) || r.status == MemberStatus::left || r.ended;
}

Member::Sides Member::sides_of(const View& next, const View& before) const {
  Sides sides;
  std::size_t counted = 0;
  bool first_here = true;
  for (const Seat& seat : before.seats) {
    const bool here = std::find_if(next.seats.begin(), next.seats.end(), [&](const Seat& s) {
                        return s.name == seat.name && (s.start == seat.start || seat.start == 0);
                      }) != next.seats.end();
    if (!here && has_ended(seat)) continue;
    if (counted++ == 0) first_here = here;
    here ? void(++sides.here) : sides.lost.push_back(seat.name);
  }
  sides.majority =
      2 * sides.here > counted || (2 * sides.here == counted && first_here) || planted(Bug::both_sides_train);
  return sides;
}

/// Of two sides one at most has a majority: half of the members count as one if the first is among them. A
/// view that was entered may have been run by others; until it is known that it was, a majority of the one
/// before it is needed as well.
Member::Sides Member::sides_of(const View& next) const {
  Sides sides;
  for (auto view = entered_.rbegin(); view != entered_.rend() && sides.majority; ++view)
    sides = sides_of(next, *view);
  return sides;
}

/// What this member is to say of the view that it announces.
void Member::look_around() {
  if (sides_of(current_).majority)
    apart_since_.reset();
  else if (!apart_since_)
    apart_since_ = env_.now();
  standing_.holds = apart_since_ && env_.now() < *apart_since_ + spec_.apart.wait_s;
}

/// Whether some member of the view, all of whom are here, waits for others that are not.
bool Member::waits_apart(const std::vector<Standing>& all) {
  const bool held = standing_.holds;
  look_around();
  if (apart_since_ && !standing_.holds && spec_.apart.ends) {
    end_apart();
    return true;
  }
  if (standing_.holds != held) say(standing_);
  if (standing_.holds && std::exchange(told_apart_, standing_.view) != standing_.view)
    env_.log(fmt::format("{}; waiting for the others for {:.4g} s at most (run.on_partition = {}), then {}",
                         apart_text(sides_of(current_)), spec_.apart.wait_s, spec_.apart.policy,
                         spec_.apart.ends ? "ending" : "going on without them"));
  if (standing_.holds) return true;
  for (std::size_t k = 0; k < all.size(); ++k)
    if (all[k].holds && current_.seats[k].name != name()) return true;
  return false;
}

std::string Member::apart_text(const Sides& sides) const {
  const auto named = std::min(sides.lost.size(), kNamed);
  const std::vector<std::string> names(sides.lost.begin(),
                                       sides.lost.begin() + static_cast<std::ptrdiff_t>(named));
  return fmt::format("cut off from {}{}, with {} of {} peers on this side, which is {} majority",
                     join(names, ", "),
                     sides.lost.size() > named ? fmt::format(" and {} more", sides.lost.size() - named) : "",
                     sides.here, sides.here + sides.lost.size(), sides.majority ? "the" : "no");
}

/// So that it can be gone on from there.
void Member::keep_learned() {
  if (whole_ && !kept_.empty()) env_.keep_learned(current_, rounds_, share_, without_own(kept_));
}

/// It was told to.
void Member::end_between_views() {
  if (!standing_.holds && !outside_)
    return end(Outcome::interrupted, "told to end, and left while the members agreed on who goes on");
  keep_learned();
  end(Outcome::interrupted, "told to end, and left while it waited for the others");
}

void Member::end_apart() {
  keep_learned();
  const std::string waited =
      spec_.apart.wait_s > 0 ? fmt::format("; the others have not come back in {:.4g} s", spec_.apart.wait_s)
                             : "";
  end(Outcome::lost_peer, fmt::format("{}{} (run.on_partition = {})", apart_text(sides_of(current_)), waited,
                                      spec_.apart.policy));
}

/// Of the view that begins.
void Member::tell_apart() const {
  const Sides sides = sides_of(current_);
  if (sides.lost.empty()) return;
  const bool waited = !sides.majority && spec_.apart.wait_s > 0;
  env_.log(
      fmt::format("{}; going on without them{}", apart_text(sides),
                  waited ? fmt::format(", as they have not come back in {:.4g} s", spec_.apart.wait_s) : ""));
}

std::string Member::waits_text() const {
  if (worker_ || over_) return {};
  if (outside_) return left_out_.why;
  if (standing_.holds)
    return fmt::format("{}: waits {:.0f} s more, then {}", apart_text(sides_of(current_)),
                       std::max(0.0, *apart_since_ + spec_.apart.wait_s - env_.now()),
                       spec_.apart.ends ? "ends" : "goes on without them");
  const auto all = standings();
  for (std::size_t k = 0; all && k < all->size(); ++k)
    if ((*all)[k].holds)
      return fmt::format("{} waits for others that it is cut off from", current_.seats[k].name);
  return {};
}

// --- how sides come together

std::uint64_t Member::held_of(const Seat& seat) const {
  const auto held = holds_.find({seat.name, seat.start});
  return held == holds_.end() ? 0 : held->second;
}

/// Of a peer that has run no view it is not known whose samples its model holds.
Trained Member::trained_of(const View& view) const {
  Trained all;
  if (!ran_) return all;
  for (const Seat& seat : view.seats) all.push_back(held_of(seat));
  return all;
}

/// Known, not of the view, and not known to have ended.
std::vector<Seat> Member::elsewhere(const View& view) const {
  std::vector<Seat> seats;
  for (const auto& [name, record] : swim_->members())
    if (const Seat seat{name, record.start}; record.start != 0 && !view.has(name) && !has_ended(seat))
      seats.push_back(seat);
  return seats;
}

std::map<std::uint32_t, std::uint64_t> Member::trained_elsewhere(const View& view) const {
  std::map<std::uint32_t, std::uint64_t> others;
  if (!ran_) return others;
  for (const Seat& seat : elsewhere(view)) others[start_key(seat)] = held_of(seat);
  return others;
}

/// By the view's seats; also by starts elsewhere, of which all who know what they hold tell.
std::vector<Past> Member::pasts(const std::vector<Standing>& all) const {
  std::vector<Past> each;
  for (const Standing& s : all)
    each.push_back({s.last, s.trained.size() == all.size() ? s.trained : Trained{}});
  for (const auto& [key, own] : standing_.others) {
    bool all_tell = true;
    for (std::size_t p = 0; p < all.size(); ++p)
      all_tell &= each[p].trained.empty() || all[p].others.contains(key);
    for (std::size_t p = 0; all_tell && p < all.size(); ++p)
      if (!each[p].trained.empty()) each[p].trained.push_back(all[p].others.at(key));
  }
  return each;
}

/// What the own model holds from here on. Where all take one state, what that holds.
void Member::hold_all_that(const std::vector<Standing>& all) {
  const double share = farthest(all);
  const auto taken =
      std::find_if(all.begin(), all.end(), [&](const Standing& s) { return s.whole && s.share == share; });
  const auto counts = [&](const Standing& s) {
    return !spec_.alike || (taken != all.end() && s.hash == taken->hash);
  };
  const auto hold = [&](const Seat& seat, const auto& told_by) {
    std::optional<std::uint64_t> most;
    for (const Standing& s : all)
      if (const auto told = counts(s) ? told_by(s) : std::nullopt) most = std::max(most.value_or(0), *told);
    auto& own = holds_[{seat.name, seat.start}];
    if (most) own = spec_.alike ? *most : std::max(own, *most);
  };
  using Rounds = std::optional<std::uint64_t>;
  for (std::size_t k = 0; k < all.size(); ++k)
    hold(current_.seats[k],
         [&](const Standing& s) { return s.trained.size() == all.size() ? Rounds(s.trained[k]) : Rounds(); });
  for (const Seat& seat : elsewhere(current_))
    hold(seat, [key = start_key(seat)](const Standing& s) {
      const auto told = s.others.find(key);
      return told == s.others.end() ? Rounds() : Rounds(told->second);
    });
}

/// Brings the own model together with those of sides that went on apart, where there are any: one member's of
/// each. False while these are not here.
bool Member::bring_together(const std::vector<Standing>& all) {
  if (!spec_.merges || !whole_ || !ran_) return true;
  const Meeting meeting = meeting_of(pasts(all), spec_.under_way, spec_.swim.planted);
  if (meeting.weight.size() < 2) return true;
  const auto own = static_cast<std::size_t>(std::find_if(current_.seats.begin(), current_.seats.end(),
                                                         [&](const Seat& s) { return s.name == name(); }) -
                                            current_.seats.begin());
  const std::size_t side = meeting.side[own];
  if (side == Meeting::kNone) return true;
  if (meeting.weight[side] > 0 && standing_.hash == 0) show_model();
  for (std::size_t other = 0; other < meeting.weight.size(); ++other) {
    if (other == side || meeting.weight[other] == 0 || parts_.contains(other)) continue;
    const std::vector<std::size_t> seats = meeting.seats_of(other);
    const auto first = static_cast<std::size_t>(
        std::find(seats.begin(), seats.end(), meeting.partner(own, other)) - seats.begin());
    const std::size_t from = seats[(first + part_tries_) % seats.size()];
    if (all[from].hash == 0 || !can_be(all[from].bytes))
      return false;  // it has yet to see that others want it
    part_ = other;
    part_came_ = env_.now();
    transfer_.emplace(std::vector{current_.seats[from].name}, all[from].hash, all[from].bytes,
                      spec_.swim.planted);
    return false;
  }
  merge(meeting, own);
  return true;
}

/// So that members of other sides can fetch it.
void Member::show_model() {
  learned_ = to_bytes(State{{kParametersArray, kept_.at(kParametersArray)}});
  Standing shown = standing_;
  shown.hash = hash_bytes(learned_);
  shown.bytes = learned_.size();
  say(std::move(shown));
}

/// Another member of that side is asked where nothing comes.
void Member::look_at_part() {
  if (spec_.alike || env_.now() < part_came_ + kPartPatience_s) return;
  ++part_tries_;
  transfer_.reset();
}

void Member::take_part(std::span<const std::byte> bytes) {
  const auto state = state_of(bytes, "another side");
  parts_[part_] = state ? parameters_in(*state) : std::vector<float>();  // of another size: the own stays
  transfer_.reset();
}

/// x is the mean of the sides' models by their weights; what the optimiser keeps stays the own.
void Member::merge(const Meeting& meeting, std::size_t own) {
  const std::size_t side = meeting.side[own];
  std::vector<std::pair<std::string, double>> weights{{name(), meeting.weight[side]}};
  std::string words = fmt::format("{:.3f} of this one's", meeting.weight[side]);
  std::vector<float> x = parameters_in(kept_);
  std::vector<double> sum(x.begin(), x.end());
  for (double& v : sum) v *= meeting.weight[side];
  for (const auto& [other, theirs] : std::exchange(parts_, {})) {
    const std::string& from = current_.seats[meeting.partner(own, other)].name;
    if (theirs.size() != x.size()) return;  // of another model, which a hash cannot tell
    for (std::size_t k = 0; k < sum.size(); ++k)
      sum[k] += meeting.weight[other] * static_cast<double>(theirs[k]);
    weights.emplace_back(from, meeting.weight[other]);
    words += fmt::format(", {:.3f} of {}'s", meeting.weight[other], from);
  }
  if (weights.size() == 1) return;
  std::copy(sum.begin(), sum.end(), x.begin());
  std::memcpy(kept_.at(kParametersArray).bytes.data(), x.data(), x.size() * sizeof(float));
  env_.merging(weights);
  env_.log(
      fmt::format("the sides of the network come together, by the samples that each has seen since they "
                  "parted: the model is {}",
                  words));
}

/// Where all must be alike the others' steps count, and some of this peer's do not.
void Member::tell_dropped(const std::vector<Standing>& all, PeerId from) const {
  const Trained &kept = all[from].trained, own = trained_of(current_);
  if (!whole_ || kept.size() != own.size() || own.empty()) return;
  const double rounds = lacking(kept, own, spec_.under_way);
  if (rounds == 0) return;
  env_.log(
      fmt::format("of this side's steps {:.0f} are dropped, {:.0f} samples, as the other side is farther",
                  rounds, rounds * static_cast<double>(spec_.batch)));
}

}  // namespace gossamer::node
