// What a member takes from one view to the next beside what it has learned (own.h).
#include <algorithm>

#include "member.h"

namespace gossamer::node {

/// In the first view, which knows no starts, those that frames came from; where none came, as Swim has heard.
View Member::with_starts() const {
  View view = current_;
  for (PeerId p = 0; !opened_ && p < view.seats.size(); ++p)
    if (const std::uint64_t start = worker_->start_of(p)) view.seats[p].start = start;
  return view;
}

/// Seats of the present view that this peer may owe something by what it keeps.
std::vector<std::uint32_t> Member::owed() const {
  std::vector<std::uint32_t> seats;
  const std::vector<Incarnation> whom = owed_in(kept_), there = current_.incarnations();
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
