#pragma once
// These functions tell what this process may take of the machine that it runs on.
#include <cstddef>
#include <cstdint>

namespace gossamer::node {

/// Where a process runs: a machine (a kernel, whatever containers it runs) and, within it, an allotment of
/// cores (control group, affinity). Equal numbers are equal places; machine 0: not known.
struct Place {
  std::uint32_t machine = 0, allotment = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// Peers on one machine and in one allotment, the own one included.
struct CoreSharing {
  std::size_t machine = 1, allotment = 1;
};

/// The machine by its boot, the allotment by the control group whose CPU quota binds or by affinity; never
/// machine 0.
Place this_place();
/// Threads for one of so many peers: its share of the machine's cores and of its allotment's, at least 1.
int fair_threads(const CoreSharing& sharing);
/// Allows this process as many open files as may be: connections of strangers take some, too.
void raise_file_limit();
/// How many files and connections it may have open, where it has them all; 0 where there is one left.
std::uint64_t file_limit_reached();
/// Bytes that a new allocation may hope for: the kernel's estimate of free memory (MemAvailable), or less
/// where a control group or ulimit -v sets a lower bound.
std::uint64_t free_memory();

struct MemoryUse {
  std::uint64_t resident = 0;   ///< of this process
  std::uint64_t available = 0;  ///< before something must be swapped, or a process ended
  std::uint64_t total = 0;      ///< that there is
};
/// Of the machine, or of the control group with the least left.
MemoryUse memory_use();

}  // namespace gossamer::node
