#pragma once
// When a peer that has crashed is started again, and what tells a crash from an end that was asked for.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <optional>

namespace gossamer::node {

/// Of one peer.
struct Restart {
  using Clock = std::chrono::steady_clock;
  std::uint64_t times = 0;
  std::optional<Clock::time_point> at{};  ///< when the next one is due

  /// Half a second before the first one, then twice as long each time, up to half a minute.
  double wait_s() const { return std::min(30.0, std::ldexp(0.5, static_cast<int>(times))); }
};

/// By a signal that asks it to: it leaves, or leaves at once. interrupted: the status of who does.
inline bool ended_as_told(int status, int interrupted) {
  return status == interrupted || status == 128 + SIGTERM || status == 128 + SIGINT;
}

}  // namespace gossamer::node
