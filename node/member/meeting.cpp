#include "meeting.h"

#include <algorithm>
#include <map>

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

namespace {

void take_most(Trained& all, const Trained& one) {
  all.resize(one.size());
  for (std::size_t k = 0; k < one.size(); ++k) all[k] = std::max(all[k], one[k]);
}

bool are_one(const Trained& a, const Trained& b, std::uint64_t least) {
  return lacking(a, b, least) == 0 && lacking(b, a, least) == 0;
}

double weight_against(const Trained& holds, const Trained& other, std::uint64_t least) {
  const double theirs = lacking(holds, other, least), ours = lacking(other, holds, least);
  return theirs > 0 ? theirs / (ours + theirs) : 0;
}

}  // namespace

Meeting meeting_of(const std::vector<Past>& all, std::uint64_t least, Planted planted) {
  std::map<std::uint64_t, Trained> by_view;
  for (const Past& one : all)
    if (!one.trained.empty()) take_most(by_view[one.last], one.trained);
  Meeting m;
  std::vector<const Trained*> sides;
  for (const Past& one : all) {
    if (one.trained.empty()) {
      m.side.push_back(Meeting::kNone);
      continue;
    }
    const Trained& holds = by_view.at(one.last);
    const auto same = std::find_if(sides.begin(), sides.end(),
                                   [&](const Trained* side) { return are_one(*side, holds, least); });
    m.side.push_back(static_cast<std::size_t>(same - sides.begin()));
    if (same == sides.end()) sides.push_back(&holds);
  }
  for (const Trained* next : sides) {
    const double share = m.all.empty() ? 1 : weight_against(m.all, *next, least);
    for (double& weight : m.weight) weight *= 1 - share;
    m.weight.push_back(share);
    take_most(m.all, *next);
  }
  for (const auto& [view, holds] : by_view) take_most(m.all, holds);  // what is under way counts as held
  if (planted.is(Bug::merge_unweighted))
    for (double& weight : m.weight) weight = 1 / static_cast<double>(m.weight.size());
  return m;
}

}  // namespace gossamer::node
