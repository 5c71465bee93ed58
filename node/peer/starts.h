#pragma once
// These functions number the starts of a peer's process.
#include <chrono>
#include <cstdint>
#include <random>

namespace gossamer::node {

/// Not 0, and not the same after a restart.
inline std::uint64_t draw_epoch() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) | 1;
}

/// Microseconds: a later start of this peer has a greater one.
inline std::uint64_t now_by_the_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace gossamer::node
