#pragma once
// What anyone would write first: the codecs' work as plain loops, one entry after the other, as a yardstick.
// Compiled with -O3 and without wider instructions than the compiler's default, in every build.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gossamer::node::reference {

inline constexpr std::size_t kBucket = 512;

/// Signs, lowest bit first, and the mean magnitude of each bucket.
struct Signs {
  explicit Signs(std::size_t n) : scale((n + kBucket - 1) / kBucket), bits((n + 7) / 8) {}
  std::vector<float> scale;
  std::vector<std::uint8_t> bits;
};
/// v = g + e; e ← v − decoded. Sizes equal.
void onebit_encode_feedback(std::span<const float> g, std::span<float> e, Signs& out);
/// y ← decoded, or y ← y + weight · decoded.
void onebit_decode(const Signs& in, std::span<float> y);
void onebit_decode_add(const Signs& in, float weight, std::span<float> y);

/// Fields of 4 bits, low half of a byte first: a sign (8) and a level of 0 … 7, in sevenths of the largest
/// magnitude of each bucket.
struct Levels {
  explicit Levels(std::size_t n) : norm((n + kBucket - 1) / kBucket), fields((n + 1) / 2) {}
  std::vector<float> norm;
  std::vector<std::uint8_t> fields;
};
/// Stochastic rounding by an xorshift generator.
void qsgd4_encode(std::span<const float> x, std::uint64_t seed, Levels& out);
void qsgd4_decode(const Levels& in, std::span<float> y);
void qsgd4_decode_add(const Levels& in, float weight, std::span<float> y);

/// Entries in ascending order of index.
struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};
/// The k largest magnitudes, ties to the lowest index: std::nth_element on a copy of the magnitudes, or a
/// radix select of 8 bits in each of 4 passes; then one pass that gathers. scratch grows to x.size().
void largest_by_nth_element(std::span<const float> x, std::size_t k, std::vector<float>& scratch,
                            Entries& out);
void largest_by_radix(std::span<const float> x, std::size_t k, Entries& out);

/// Bits, one after the other, lowest first.
struct BitString {
  std::vector<std::uint8_t> bytes;
  std::size_t bits = 0;
};
/// The levels of qsgd4 in the paper's codes, a bit at a time (Alistarh et al.
/// 2017, section 3.3). Sparse: for every entry that is not zero the Elias omega code of the gap to it, its
/// sign and the omega code of its level. Dense: the omega code of level + 1 for every entry, a sign where it
/// is not zero. decode: y ← decoded.
void elias_sparse_encode(std::span<const float> x, std::uint64_t seed, BitString& out);
void elias_sparse_decode(const BitString& in, std::span<float> y);
void elias_dense_encode(std::span<const float> x, std::uint64_t seed, BitString& out);
void elias_dense_decode(const BitString& in, std::span<float> y);

}  // namespace gossamer::node::reference
