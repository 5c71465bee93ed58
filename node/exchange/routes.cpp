#include "routes.h"

#include <algorithm>
#include <set>

namespace gossamer::node {

Routes::Routes(const topology::Schedule& schedule) : peers_(schedule.peers()), parents_(peers_ * peers_) {
  std::vector<std::set<PeerId>> out(peers_);
  for (std::size_t t = 0; t < schedule.period(); ++t)
    for (PeerId p = 0; p < peers_; ++p)
      for (const PeerId to : schedule.at(t).out(p)) out[p].insert(to);
  std::vector<PeerId> reached;
  for (PeerId origin = 0; origin < peers_; ++origin) {
    std::vector<bool> seen(peers_, false);
    seen[origin] = true;
    parents_[origin * peers_ + origin] = origin;
    reached.assign(1, origin);
    for (std::size_t k = 0; k < reached.size(); ++k)
      for (const PeerId to : out[reached[k]]) {
        if (seen[to]) continue;
        seen[to] = true;
        parents_[origin * peers_ + to] = reached[k];
        reached.push_back(to);
      }
    complete_ &= reached.size() == peers_;
  }
}

std::vector<PeerId> Routes::onward(PeerId origin, PeerId peer) const {
  std::vector<PeerId> to;
  for (PeerId p = 0; p < peers_; ++p)
    if (p != origin && from(origin, p) == peer) to.push_back(p);
  return to;
}

}  // namespace gossamer::node
