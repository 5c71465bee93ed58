#pragma once
// Reading one prefix code off the low end of at least 56 bits, for the CPU and for CUDA devices.
#include <bit>

#include "prefix_code.h"

namespace gossamer::compress {

/// A read code: `zeros` levels of 0, then `level` unless it is the last. length 0 = not a code of these
/// levels.
struct ReadCode {
  std::uint64_t zeros = 0;
  int level = 0;
  unsigned length = 0;
  bool last = false;
};

/// Whether it is one of `most` levels above 0, or of one more below (of 127: a signed byte); whether it is
/// one of the range is seen when it becomes a field.
constexpr bool is_level(std::uint64_t size, bool negative, unsigned most) {
  return size >= 1 && size <= most + (negative ? 1u : 0u);
}

/// Reads one code off at least 56 bits.
constexpr ReadCode read_dense_code(std::uint64_t bits, unsigned most = kLevelsMax) {
  const OmegaRead size = read_omega(bits);
  if (size.number == 0) return {};
  if (size.number == 1) return {0, 0, size.length};
  const bool negative = ((bits >> size.length) & 1) != 0;
  if (!is_level(size.number - 1, negative, most)) return {};
  const auto level = static_cast<int>(size.number - 1);
  return {0, negative ? -level : level, size.length + 1};
}

constexpr ReadCode read_rice_code(std::uint64_t bits, unsigned r) {
  const auto high = static_cast<unsigned>(std::countr_zero(bits));
  if (high + 1 + r > 56) return {};
  const std::uint64_t folded = (std::uint64_t{high} << r) | ((bits >> (high + 1)) & low_bits(r));
  if (folded > 2 * kLevelsMax + 1) return {};
  const auto half = static_cast<int>((folded + 1) / 2);
  return {0, (folded & 1) != 0 ? -half : half, high + 1 + r};
}

/// Gaps past 2¹⁷ are none of a slice; with them and a level a code has at most 45 bits, and 53 where `most`
/// is 65 535.
constexpr ReadCode read_sparse_code(std::uint64_t bits, unsigned most = kLevelsMax) {
  const OmegaRead gap = read_omega(bits);
  if (gap.number == 0 || gap.number > (std::uint64_t{1} << 17)) return {};
  bits >>= gap.length;
  const OmegaRead size = read_omega(bits >> 1);
  const bool negative = (bits & 1) != 0;
  if (!is_level(size.number, negative, most)) return {};
  const auto level = static_cast<int>(size.number);
  return {gap.number - 1, negative ? -level : level, gap.length + 1 + size.length};
}

/// The sparse code of a string with `left` levels to go, zeros at its end included.
constexpr ReadCode read_sparse_or_end(std::uint64_t bits, std::size_t left, unsigned most = kLevelsMax) {
  const OmegaRead gap = read_omega(bits);
  if (gap.number == left + 1) return {left, 0, gap.length, true};
  return read_sparse_code(bits, most);
}

}  // namespace gossamer::compress
