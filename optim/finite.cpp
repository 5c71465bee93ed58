#include "gossamer/optim/finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gossamer::optim {

bool all_finite(std::span<const float> x) {
  constexpr std::size_t kBlock = 4096;
  for (; !x.empty(); x = x.subspan(std::min(kBlock, x.size()))) {
    // As signed integers magnitudes keep their order. A block has no early exit, which compilers turn into
    // vector code.
    std::int32_t bad = 0;
    for (const float v : x.first(std::min(kBlock, x.size())))
      bad |= (std::bit_cast<std::int32_t>(v) & 0x7fffffff) > 0x7f7fffff ? 1 : 0;
    if (bad != 0) return false;
  }
  return true;
}

}  // namespace gossamer::optim
