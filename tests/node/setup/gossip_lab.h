#pragma once
// Bare averaging: peers that start at different x and have no gradient, run by the method and the replica
// that a real run has, with all messages of a round delivered at its end.
#include <cstdint>
#include <string>
#include <vector>

#include "sim_job.h"

namespace gossamer::node::test {

/// One codec at one end of its parameters, under one method on one graph.
struct GossipCase {
  std::string method, graph, codec;
  std::size_t peers = 8;
  std::string start;  ///< of start_kinds()

  std::string name() const;
};

/// normal: all alike; heavy: lognormal times normal; sparse: 3 entries in 1000; far: one peer 30 times as far
/// off as the others.
const std::vector<std::string>& start_kinds();
/// Codecs that CHOCO-SGD and DeepSqueeze take, each at the ends of what its parameters may be.
const std::vector<std::string>& gossip_codecs();
/// Every codec under both methods on ring, full, star and undirected exponential; and noloco. Starts in turn,
/// or all of one kind.
std::vector<GossipCase> gossip_cases(std::size_t peers, const std::string& start);

struct GossipCourse {
  double gamma = 0;
  double most = 0, last = 0;  ///< consensus distance over the first one: the largest, and at the end
  bool holds() const { return most <= 2 && last < 1; }
};
/// gamma: in place of the default. Ends early where the distance is a million times the first.
GossipCourse gossip(const GossipCase& c, std::size_t rounds, std::uint64_t seed, double gamma = 0);

}  // namespace gossamer::node::test
