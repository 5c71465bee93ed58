#include "sum_numbers.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace gossamer::node {

SumNumbers::SumNumbers(const Plan& plan, PeerId self) {
  std::set<PeerId> to, from;
  for (std::size_t t = 0; t < plan.schedule.period(); ++t) {
    for (const PeerId p : plan.schedule.at(t).out(self)) to.insert(p);
    for (const auto& e : plan.schedule.at(t).in(self)) from.insert(e.peer);
  }
  for (const PeerId p : to) sums_.push_back({p, true});
  for (const PeerId p : from) sums_.push_back({p, false});
  for (const PeerId p : plan.owed_by(self)) sums_.push_back({p, true, false});
  for (const PeerId p : plan.owing(self)) sums_.push_back({p, false, false});
}

std::uint32_t SumNumbers::number(const MassSum& sum) const {
  const auto at = std::find_if(sums_.begin(), sums_.end(),
                               [&](const MassSum& s) { return s.peer == sum.peer && s.sent == sum.sent; });
  assert(at != sums_.end());
  return static_cast<std::uint32_t>(1 + (at - sums_.begin()));
}

}  // namespace gossamer::node
