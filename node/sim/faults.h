#pragma once
// FaultWindows are the times in which simulated links or peers fail: [sim] cut, clog, pause and crash.
#include <cstddef>
#include <utility>
#include <vector>

#include "gossamer/node/job.h"
#include "ids.h"

namespace gossamer::node {

class FaultWindows {
 public:
  /// Throws ConfigError where a fault window names no peer of the job, or no two of them.
  explicit FaultWindows(const Job& job);

  /// Frames that leave now for that peer are lost.
  bool cut(PeerId from, PeerId to, double now) const;
  /// When a frame that would arrive at `time` gets through; the same time where nothing holds it.
  double clogged_until(PeerId from, PeerId to, double time) const;
  /// When the peer goes on; the same time where it is not paused.
  double paused_until(PeerId peer, double time) const;
  /// Peers whose processes end, and begin, with the times.
  std::vector<std::pair<PeerId, double>> crashes() const;
  std::vector<std::pair<PeerId, double>> restarts() const;

 private:
  struct Window {
    PeerId a, b;  ///< from, to; or twice the peer
    double begin, end;
  };
  std::vector<Window> cuts_, clogs_, pauses_, crashes_;
};

}  // namespace gossamer::node
