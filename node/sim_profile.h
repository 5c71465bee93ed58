#pragma once
// How unlike the simulated machines and their links are, drawn from a seed: what each peer's step takes, what
// each link carries, and when a peer sleeps.
#include <cstdint>
#include <span>

#include "gossamer/node/job.h"

namespace gossamer::node {

struct LinkQuality {
  double bandwidth;  ///< bit/s of each direction
  double latency;    ///< seconds
};

/// A kind of access to the network; both figures are drawn evenly on a logarithmic scale, for each link.
struct LinkClass {
  const char* name;
  double share;  ///< of the peers, under links = "mixed"
  LinkQuality least, most;
};
/// From the quickest to the slowest.
std::span<const LinkClass> link_classes();

/// Draws depend on the seed, the peer or the two peers, and nothing else.
class SimProfile {
 public:
  SimProfile(const Job& job, std::uint64_t seed);

  /// Factor on the peer's step time: from 1 to sim.speed_spread, and what sim.slow says of it.
  double slowness(topology::PeerId peer) const;
  /// The same in both directions; a [[link]] table overrules what is drawn.
  LinkQuality link(topology::PeerId a, topology::PeerId b) const;
  /// When the peer wakes; the same time where it does not sleep.
  double asleep_until(topology::PeerId peer, double time) const;

 private:
  enum class Use : std::uint64_t { speed, access, bandwidth, latency, phase };
  double uniform(Use use, std::uint64_t a, std::uint64_t b = 0) const;  ///< in [0, 1)
  double between(double least, double most, Use use, topology::PeerId a, topology::PeerId b) const;
  std::size_t access(topology::PeerId peer) const;  ///< number of its link class

  const Job& job_;
  std::uint64_t seed_;
};

/// The names of sim.speeds and of sim.links.
std::vector<std::string> speed_names();
std::vector<std::string> link_names();

}  // namespace gossamer::node
