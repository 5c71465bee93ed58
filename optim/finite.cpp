#include "gossamer/optim/finite.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace gossamer::optim {
namespace {

/// As signed integers magnitudes keep their order. There is no early exit, which compilers turn into vector
/// code.
std::int32_t any_beyond(std::span<const float> x, std::int32_t most) {
  std::int32_t beyond = 0;
  for (const float v : x) beyond |= (std::bit_cast<std::int32_t>(v) & 0x7fffffff) > most ? 1 : 0;
  return beyond;
}

}  // namespace

bool all_within(std::span<const float> x, float bound) {
  constexpr std::size_t kLine = 16, kBlock = 256, kAhead = 1024;
  const auto most = std::bit_cast<std::int32_t>(bound);
  std::int32_t beyond = 0;
  for (; x.size() >= kBlock && beyond == 0; x = x.subspan(kBlock)) {
    for (std::size_t line = 0; line < kBlock; line += kLine)  // memory by itself brings them too late
      __builtin_prefetch(x.data() + kAhead + line);
    beyond = any_beyond(x.first(kBlock), most);
  }
  return beyond == 0 && any_beyond(x, most) == 0;
}

bool all_finite(std::span<const float> x) { return all_within(x, std::numeric_limits<float>::max()); }

}  // namespace gossamer::optim
