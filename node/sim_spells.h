#pragma once
// What befalls links and peers for a while in a simulated run: the job's [sim] cut, clog and pause.
#include <cstddef>
#include <vector>

#include "gossamer/node/job.h"

namespace gossamer::node {

class SimSpells {
 public:
  /// Throws ConfigError where a spell names no peer of the job, or no two of them.
  explicit SimSpells(const Job& job);

  /// Frames that leave now for that peer are lost.
  bool cut(topology::PeerId from, topology::PeerId to, double now) const;
  /// When a frame that would arrive at `time` gets through; the same time where nothing holds it.
  double clogged_until(topology::PeerId from, topology::PeerId to, double time) const;
  /// When the peer goes on; the same time where it is not paused.
  double paused_until(topology::PeerId peer, double time) const;

 private:
  struct Window {
    topology::PeerId a, b;  ///< from, to; or twice the peer
    double begin, end;
  };
  std::vector<Window> cuts_, clogs_, pauses_;
};

}  // namespace gossamer::node
