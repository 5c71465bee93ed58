#include "gossamer/optim/finite.h"

#include <bit>
#include <cstdint>

namespace gossamer::optim {
namespace {

/// As signed integers magnitudes keep their order. There is no early exit, which compilers turn into vector
/// code.
std::int32_t any_bad(std::span<const float> x) {
  std::int32_t bad = 0;
  for (const float v : x) bad |= (std::bit_cast<std::int32_t>(v) & 0x7fffffff) > 0x7f7fffff ? 1 : 0;
  return bad;
}

}  // namespace

bool all_finite(std::span<const float> x) {
  constexpr std::size_t kLine = 16, kBlock = 256, kAhead = 1024;
  std::int32_t bad = 0;
  for (; x.size() >= kBlock && bad == 0; x = x.subspan(kBlock)) {
    for (std::size_t line = 0; line < kBlock; line += kLine)  // memory by itself brings them too late
      __builtin_prefetch(x.data() + kAhead + line);
    bad = any_bad(x.first(kBlock));
  }
  return bad == 0 && any_bad(x) == 0;
}

}  // namespace gossamer::optim
