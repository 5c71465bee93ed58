#pragma once
// The heterogeneity of the simulated machines and their links, drawn from a seed: what each peer's step
// takes, what each link carries, and when a peer sleeps.
#include <cstdint>

#include "gossamer/node/job.h"
#include "ids.h"
#include "link_classes.h"

namespace gossamer::node {

/// Draws depend on the seed, the peer or the two peers, and nothing else.
class SimProfile {
 public:
  SimProfile(const Job& job, std::uint64_t seed);

  /// Factor on the peer's step time: from 1 to sim.speed_spread, and what sim.slow says of it.
  double slowness(PeerId peer) const;
  /// The same in both directions; a [[link]] table overrules what is drawn.
  LinkQuality link(PeerId a, PeerId b) const;
  /// What the peer's clock shows then.
  double clock(PeerId peer, double time) const;
  /// When the peer's clock shows that, or just after it.
  double when(PeerId peer, double clock) const;
  /// When the peer wakes; the same time where it does not sleep.
  double asleep_until(PeerId peer, double time) const;

 private:
  enum class Use : std::uint64_t { speed, access, bandwidth, latency, phase, clock_rate, clock_begin };
  double uniform(Use use, std::uint64_t a, std::uint64_t b = 0) const;  ///< in [0, 1)
  double between(double least, double most, Use use, PeerId a, PeerId b) const;
  std::size_t access(PeerId peer) const;  ///< number of its link class
  double clock_rate(PeerId peer) const;
  double clock_begin(PeerId peer) const;

  const Job& job_;
  std::uint64_t seed_;
};

}  // namespace gossamer::node
