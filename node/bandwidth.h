#pragma once
// What memory allows: the speeds that no codec on this machine can pass.
#include <cstddef>

namespace gossamer::node {

/// GB/s of one fp32 array: 4 bytes of each entry count, however often the entry is touched.
struct MemoryLimits {
  double read;      ///< x is read
  double write;     ///< y is written
  double modify;    ///< y is read and written in place
  double feedback;  ///< g is read, e is read and written
};

/// Medians of repeated passes over `entries` floats, shared out among the threads. Throws std::bad_alloc.
MemoryLimits measure_memory(std::size_t entries, std::size_t threads);

}  // namespace gossamer::node
