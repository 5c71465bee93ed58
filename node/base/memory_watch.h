#pragma once
// MemoryWatch warns once before a machine swaps, or its kernel ends a process for want of memory.
#include <cstdint>
#include <optional>
#include <string>

#include "machine.h"

namespace gossamer::node {

class MemoryWatch {
 public:
  /// limit: bytes that this process may take; 0: whatever the machine has.
  explicit MemoryWatch(std::uint64_t limit) : limit_(limit) {}
  /// Whether it is time to look: every few seconds of a clock in seconds, until it has warned.
  bool due(double now) const { return !warned_ && now >= next_; }
  /// What is to be said; nothing where there is enough. now: as of due.
  std::optional<std::string> look(double now, const MemoryUse& use);

 private:
  std::uint64_t limit_;
  double next_ = 0;
  bool warned_ = false;
};

}  // namespace gossamer::node
