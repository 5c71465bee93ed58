#pragma once
// Vectors of buckets with even levels, from entries to payload and back: qsgd and intq.
#include <span>
#include <string>

#include "codecs.h"
#include "level_kernels.h"

namespace gossamer::compress {

/// How fields stand in a payload; none but the first is known yet.
enum class LevelCoding : std::uint8_t { packed = 0 };
/// Throws PayloadError for any other.
void read_level_coding(wire::Reader& in);

/// What tells one codec's buckets from another's. A bucket is described by its norm (largest, squares: fields
/// are levels around zero) or by its two ends (range).
struct LevelRule {
  wire::CodecId id;
  Measure measure;
  unsigned bits;
  std::size_t bucket;
  bool stochastic = true;

  std::size_t scales() const { return measure == Measure::range ? 2 : 1; }
};
/// Levels on each side of zero.
constexpr unsigned levels_a_side(unsigned bits) { return (1u << (bits - 1)) - 1; }

/// Payload: header, u8 bits, u8 coding, varint bucket, per bucket one or two fp32, ceil(n·bits/8) bytes of
/// fields. A negative or falling scale, and a field that no encoder writes, are refused.
std::size_t level_max_bytes(const LevelRule& rule, std::size_t n);
std::size_t encode_levels(const LevelRule& rule, std::span<const float> x, RandomKey key,
                          Workspace& workspace, std::span<std::byte> out);
/// In one pass with the feedback: each bucket's residual is written when its fields are.
std::size_t encode_levels(const LevelRule& rule, std::span<const float> g, FeedbackState& state,
                          RandomKey key, Workspace& workspace, std::span<std::byte> out);
/// Reads what follows the header; range tells which of the two kinds of bucket.
void decode_levels(bool range, wire::Reader& in, float weight, std::span<float> acc, Threads* threads);

/// Calls work(residual) with room for n entries, zeros where state is empty; where that throws, an empty
/// state is empty again. Throws EncodeError where the state is another layer's.
template <class Work>
std::size_t with_residual(FeedbackState& state, std::size_t n, const Work& work);

/// Throws EncodeError naming the first of v, entries `first` … of n, that is not finite.
[[noreturn]] void refuse_not_finite(std::span<const float> v, std::size_t first, std::size_t n);

}  // namespace gossamer::compress
