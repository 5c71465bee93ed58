#pragma once
// StallWatch notices that a run stands still although every peer is alive.
#include <algorithm>

namespace gossamer::node {

/// Counts the time for which a peer has waited for others in one round. Peers may be slow: ten times the
/// longest round so far is never too long.
class StallWatch {
 public:
  /// 0: never stalled.
  explicit StallWatch(double timeout_s) : timeout_s_(timeout_s) {}

  /// Called every moment or so; waits: nothing of its own keeps this peer busy. Time in which the process did
  /// not run is not counted.
  void on_time(double now, bool waits) {
    if (waits) waited_s_ += std::min(now - seen_, kMoment_s);
    seen_ = now;
  }
  void on_round(double took_s) {
    longest_s_ = std::max(longest_s_, took_s);
    waited_s_ = 0;
  }
  bool stalled() const { return timeout_s_ > 0 && waited_s_ >= std::max(timeout_s_, 10 * longest_s_); }
  double waited_s() const { return waited_s_; }

 private:
  static constexpr double kMoment_s = 1;
  double timeout_s_, seen_ = 0, waited_s_ = 0, longest_s_ = 0;
};

}  // namespace gossamer::node
