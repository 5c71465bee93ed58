#pragma once
// Elias omega code (Elias 1975, "Universal codeword sets and representations of the integers"): 1 is "0"; a
// larger number is preceded by itself in binary, before that by its length less one in binary, and so on down
// to 2 or 3. Here each group's leading one comes first, as decoding needs it, then its other bits, lowest
// first.
#include <array>
#include <cstdint>

#include "bits.h"

namespace gossamer::compress {

/// Of a number in binary; none of 0. (In device code std::bit_width of 64 bits is 0, whatever the number:
/// nvcc 13 with the standard library of GCC 12.)
constexpr unsigned width_of(std::uint64_t number) {
  return number == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(number));
}

struct BitCode {
  std::uint64_t bits = 0;
  unsigned length = 0;
};

/// 1 ≤ number < 2³³; at most 45 bits.
constexpr BitCode omega(std::uint64_t number) {
  BitCode code{0, 1};
  while (number > 1) {
    const unsigned width = width_of(number);
    const std::uint64_t rest = number & low_bits(width - 1);
    code.bits = code.bits << width | rest << 1 | 1;
    code.length += width;
    number = width - 1;
  }
  return code;
}

/// Length of omega(number), by the number's width in bits.
inline constexpr auto kOmegaLength = [] {
  std::array<std::uint8_t, 34> all{};
  for (unsigned width = 1; width < all.size(); ++width)
    all[width] = static_cast<std::uint8_t>(omega(std::uint64_t{1} << (width - 1)).length);
  return all;
}();
constexpr unsigned omega_length(std::uint64_t number) { return kOmegaLength[width_of(number)]; }

struct OmegaRead {
  std::uint64_t number = 0;  ///< 0 where it is 2³³ or more
  unsigned length = 0;
};
/// The number at the low end of at least 45 bits.
constexpr OmegaRead read_omega(std::uint64_t bits) {
  std::uint64_t number = 1;
  unsigned length = 1;
  while ((bits & 1) != 0) {
    if (number > 32) return {};
    const auto rest = static_cast<unsigned>(number);
    number = std::uint64_t{1} << rest | ((bits >> 1) & low_bits(rest));
    bits >>= rest + 1;
    length += rest + 1;
  }
  return {number, length};
}

}  // namespace gossamer::compress
