#include "meeting.h"

#include <algorithm>

namespace gossamer::node {

std::vector<std::size_t> Meeting::seats_of(std::size_t of) const {
  std::vector<std::size_t> seats;
  for (std::size_t k = 0; k < side.size(); ++k)
    if (side[k] == of) seats.push_back(k);
  return seats;
}

std::size_t Meeting::partner(std::size_t seat, std::size_t of) const {
  const auto own = seats_of(side[seat]), theirs = seats_of(of);
  const auto place = static_cast<std::size_t>(std::find(own.begin(), own.end(), seat) - own.begin());
  return theirs[place % theirs.size()];
}

double lacking(std::span<const std::uint64_t> holds, std::span<const std::uint64_t> other,
               std::uint64_t least) {
  double rounds = 0;
  for (std::size_t k = 0; k < holds.size(); ++k)
    if (other[k] > holds[k] + least) rounds += static_cast<double>(other[k] - holds[k]);
  return rounds;
}

Meeting meeting_of(const std::vector<Trained>& all, std::uint64_t least, Planted planted) {
  Meeting m;
  std::vector<const Trained*> firsts;
  for (const Trained& one : all) {
    if (one.size() != all.size()) {
      m.side.push_back(Meeting::kNone);
      continue;
    }
    const auto same = std::find_if(firsts.begin(), firsts.end(), [&](const Trained* first) {
      return lacking(*first, one, least) == 0 && lacking(one, *first, least) == 0;
    });
    m.side.push_back(static_cast<std::size_t>(same - firsts.begin()));
    if (same == firsts.end()) firsts.push_back(&one);
  }
  for (const Trained* next : firsts) {
    if (m.weight.empty()) {
      m.weight = {1};
      m.all = *next;
      continue;
    }
    const double ours = lacking(*next, m.all, least), theirs = lacking(m.all, *next, least);
    const double share = theirs > 0 ? theirs / (ours + theirs) : 0;
    for (double& weight : m.weight) weight *= 1 - share;
    m.weight.push_back(share);
    for (std::size_t k = 0; k < m.all.size(); ++k) m.all[k] = std::max(m.all[k], (*next)[k]);
  }
  for (std::size_t k = 0; k < m.side.size(); ++k)  // what is under way counts as held
    for (std::size_t p = 0; m.side[k] != Meeting::kNone && p < m.all.size(); ++p)
      m.all[p] = std::max(m.all[p], all[k][p]);
  if (planted.is(Bug::merge_unweighted))
    for (double& weight : m.weight) weight = 1 / static_cast<double>(m.weight.size());
  return m;
}

}  // namespace gossamer::node
