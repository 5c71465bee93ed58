#pragma once
// MemoryLimits are the speeds that memory allows, which no codec on this machine can pass.
#include <cstddef>

namespace gossamer::node {

/// GB/s of one fp32 array: 4 bytes of each entry count, however often the entry is touched.
struct MemoryLimits {
  double read;      ///< x is read
  double write;     ///< y is written
  double modify;    ///< y is read and written in place
  double feedback;  ///< g is read, e is read and written
};

/// Passes over `entries` floats, shared out among the threads: the largest of several medians taken one after
/// the other, because on a machine with other work a limit is only ever measured too low. Throws
/// std::bad_alloc.
MemoryLimits measure_memory(std::size_t entries, std::size_t threads);
/// Of two measurements of the same.
MemoryLimits larger(const MemoryLimits& a, const MemoryLimits& b);

}  // namespace gossamer::node
