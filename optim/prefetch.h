#pragma once
#include <cstddef>
#include <cstdint>

namespace gossamer::optim {

/// Brings the cache lines of these bytes near. How often it loops depends on their number alone, not on where
/// they lie: of rows of one size that is foretold. To GCC a function that does no more than that has no
/// effect, and it drops the calls: the empty assembly is one.
inline void prefetch_bytes(const void* from, std::size_t bytes) {
  constexpr std::uintptr_t kLine = 64;
  const auto first = reinterpret_cast<std::uintptr_t>(from), end = first + bytes;
  for (std::uintptr_t at = first; at < end; at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at));
  __builtin_prefetch(reinterpret_cast<const void*>(end - 1));
  asm volatile("");
}

}  // namespace gossamer::optim
