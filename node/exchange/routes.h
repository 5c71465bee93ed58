#pragma once
// Routes say over which links what one peer tells reaches all the others: for each origin a tree of shortest
// paths over the graph's links, so that every peer gets each message once.
#include <cstdint>
#include <vector>

#include "gossamer/topology/schedule.h"
#include "ids.h"

namespace gossamer::node {

class Routes {
 public:
  /// Over all links of the schedule's rounds. Of several shortest paths the one by the lowest numbers.
  explicit Routes(const topology::Schedule& schedule);
  std::size_t peers() const { return peers_; }
  /// All peers are reached from every one.
  bool complete() const { return complete_; }
  /// Who hands on to `peer` what the origin tells; the origin itself where peer is the origin.
  PeerId from(PeerId origin, PeerId peer) const { return parents_[origin * peers_ + peer]; }
  /// To whom `peer` hands it on, ascending.
  std::vector<PeerId> onward(PeerId origin, PeerId peer) const;

 private:
  std::size_t peers_;
  bool complete_ = true;
  std::vector<PeerId> parents_;  ///< [origin, peer]
};

}  // namespace gossamer::node
