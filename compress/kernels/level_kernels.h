#pragma once
// Quantisation of a bucket to even levels, which qsgd, terngrad and intq share. A level stands as one byte,
// its field, until fields are packed; every instruction set gives the same bits.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "philox.h"

namespace gossamer::compress {

/// What is to be known of a bucket before its entries can be rounded.
enum class Measure { largest, range, squares };
struct Measured {
  float largest = 0;        ///< max|v|; Inf or NaN where an entry is
  float low = 0, high = 0;  ///< Measure::range: least and greatest entry, +0 for −0
  double squares = 0;       ///< Measure::squares: Σv² in 32 lanes (entry mod 32), combined pairwise
};

/// The levels of one bucket: fields 0 … top, of which field q stands for
///   (q − zero)·step·unit                              between two sides of zero,
///   low + q·step·unit, high − (top − q)·step·unit     from both ends of a range (lower, upper half).
struct Levels {
  unsigned bits = 8;  ///< 2, 4 or 8; top < 2^bits
  unsigned top = 0;
  bool range = false;
  bool clips = false;  ///< entries may lie beyond the outermost levels
  /// Rounding: p = (v·shift − origin)·inverse, held to least … most; field ⌊p + zero + u⌋, u of the draw.
  float shift = 1, origin = 0, inverse = 0, least = 0, most = 0;
  std::uint32_t draw_mask = 0;  ///< which bits of a sum's fraction the draw gives; 0: to nearest
  std::uint32_t start = 0;  ///< bits of 2^bits + zero + ½ of the last bit drawn; of 2^bits + ½ to nearest
  float zero = 0, step = 0, unit = 1, low = 0, high = 0;
};

/// s levels on each side of zero, 2s < 2^bits, the outermost ±norm (where s is not 1, 7 or 127 perhaps the
/// float below it); norm ≥ 0 and finite, and unless clips is then set, ≥ |v| of every entry.
Levels levels_around_zero(unsigned bits, unsigned s, float norm);
/// 2^bits levels from low to high, both exact.
Levels levels_of_range(unsigned bits, float low, float high, bool stochastic);

/// What is alike in all buckets of a vector. A bucket is described by its norm (largest, squares: levels
/// around zero) or by its two ends (range).
struct BucketRule {
  Measure measure = Measure::largest;
  unsigned bits = 8;    ///< Levels::bits; of a range also those of a field where it stands
  unsigned a_side = 0;  ///< levels on each side of zero; none of a range
  std::size_t bucket = 512;
  bool stochastic = true;
  constexpr bool range() const { return measure == Measure::range; }
  constexpr std::size_t scales() const { return range() ? 2 : 1; }
  /// Of a field where it stands: as few as tell all levels.
  constexpr unsigned field_bits() const {
    return range() ? bits : static_cast<unsigned>(std::bit_width(2 * a_side));
  }
};
/// Levels on each side of zero that fields of so many bits are filled by, but for one value.
constexpr unsigned levels_a_side(unsigned bits) { return (1u << (bits - 1)) - 1; }
/// Levels::bits of s levels a side, at most 127.
constexpr unsigned rounding_bits(unsigned s) { return s == 1 ? 2 : s <= levels_a_side(4) ? 4 : 8; }
/// The numbers that describe a measured bucket; false where one of them is not finite.
bool scales_of(Measure what, const Measured& found, float* scale);
Levels levels_of(const BucketRule& rule, const float* scale);
/// The level of a field, the same bits as the kernels add.
float level_value(const Levels& levels, unsigned field);

/// Measures v = x, or v = x + e where e is given; then v is also written (v may be e).
Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n);

/// 512 draws of 16 bits: entry 64h + j takes the low half of word j of row h/2 for even h, else the high
/// half.
struct Draws {
  static constexpr std::size_t kRow = 64, kRows = 4;
  // One row more, so that a vector may start at any entry.
  alignas(64) std::uint32_t words[(kRows + 1) * kRow];
};
void draw(const EntryBits& random, std::size_t group, Draws& draws);

/// Fields of v[0 … n), which are the entries `first` … of a group of 512 draws; first is a multiple of 16.
/// Where residual is given, v − level is written there (it may be v).
void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
              std::uint8_t* fields, float* residual);

/// Encodes whole groups of 512 entries at once, a bucket being 64, 128, 256 or 512 of them: measured, drawn
/// for (the first is group `first`), rounded and packed, with v = x + e where e is given, which becomes the
/// residual. Returns the number of groups done: it stops before one whose scales are not finite, and may do
/// none; the caller sees to what is left.
inline constexpr std::size_t kLeastBucket = 64;
std::size_t encode_groups(const BucketRule& rule, const float* x, float* e, std::size_t groups,
                          const EntryBits& random, std::size_t first, std::byte* scales,
                          std::uint8_t* fields);

/// acc += weight · level.
void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n);

/// Neighbouring fields, the lower first, become one of twice the bits: n bytes to n/2, n a multiple of 256.
void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out);
/// The other way round: n/2 bytes to n.
void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields);
/// Five digits 0, 1, 2 to a byte: digit k of byte b is digits[k·row + b], lowest first; row bytes.
void pack_trits(const std::uint8_t* digits, std::size_t row, std::uint8_t* out);
/// The other way round; false where a byte is not five digits, which then are of no meaning.
bool unpack_trits(const std::uint8_t* in, std::size_t row, std::uint8_t* digits);
/// Whether none of n fields is above top; n a multiple of 64.
bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top);

}  // namespace gossamer::compress
