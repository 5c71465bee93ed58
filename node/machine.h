#pragma once
// What this process may take of the machine that it runs on.
#include <cstdint>

namespace gossamer::node {

/// Bytes that a new allocation may hope for: the kernel's estimate of free memory (MemAvailable), or less
/// where a control group or ulimit -v sets a lower bound.
std::uint64_t free_memory();

}  // namespace gossamer::node
