// What a member takes from one view to the next beside what it has learned (own.h).
#include <algorithm>
#include <set>

#include "member.h"

namespace gossamer::node {

/// The worker's view. In the first, which knows no starts, those that frames came from; where none came, as
/// Swim has heard.
View Member::with_starts() const {
  View view = winding_up_ ? run_ : current_;
  for (PeerId p = 0; !opened_ && p < view.seats.size(); ++p)
    if (const std::uint64_t start = worker_->start_of(p)) view.seats[p].start = start;
  return view;
}

/// By what it keeps, or will when the worker has taken its last step; ascending.
std::vector<Incarnation> Member::whom_it_owes() const {
  if (!worker_ || !spec_.holds_mass) return owed_in(kept_);
  std::set<Incarnation> whom(owed_.begin(), owed_.end());
  const std::vector<Incarnation> seats = with_starts().incarnations();
  const Plan& plan = worker_->plan();
  for (std::size_t t = 0; t < plan.schedule.period(); ++t)
    for (const PeerId p : plan.schedule.at(t).out(plan.self)) whom.insert(seats[p]);
  return {whom.begin(), whom.end()};
}

/// Seats of the present view that this peer may owe something.
std::vector<std::uint32_t> Member::owed() const {
  std::vector<std::uint32_t> seats;
  const std::vector<Incarnation> whom = whom_it_owes(), there = current_.incarnations();
  for (std::uint32_t p = 0; p < there.size() && seats.size() < kMostOwed; ++p)
    if (std::binary_search(whom.begin(), whom.end(), there[p])) seats.push_back(p);
  return seats;
}

Passage Member::passage() const {
  Passage passage{current_.incarnations()};
  for (const auto& [name, record] : swim_->members()) {
    const bool over = record.status == MemberStatus::left ||
                      (planted(Bug::seeming_dead_written_off) && record.status == MemberStatus::dead);
    passage.least.push_back({name, record.start + over});
  }
  for (PeerId p = 0; p < spec_.named; ++p)
    if (!swim_->members().contains(spec_.roster[p].name)) passage.least.push_back({spec_.roster[p].name, 0});
  return passage;
}

std::vector<std::pair<PeerId, PeerId>> Member::former(const std::vector<Standing>& all) {
  std::vector<std::pair<PeerId, PeerId>> pairs;
  for (PeerId p = 0; p < all.size(); ++p)
    for (const PeerId to : all[p].owed) pairs.emplace_back(p, to);
  return pairs;
}

}  // namespace gossamer::node
