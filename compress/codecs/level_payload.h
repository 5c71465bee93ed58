#pragma once
// Vectors of buckets with even levels, from entries to payload and back: qsgd and intq.
#include <span>
#include <string>

#include "codecs.h"
#include "level_coding.h"
#include "level_kernels.h"
#include "parameters.h"

namespace gossamer::compress {

/// How the fields of a payload are laid out.
enum class FieldLayout : std::uint8_t {
  packed = 0,  ///< where each stands follows from its index
  coded = 1,   ///< slices as level_coding.h has them
};
constexpr FieldLayout layout_of(FieldCoding coding) {
  return coding == LevelForm::packed ? FieldLayout::packed : FieldLayout::coded;
}
/// Throws PayloadError for any other.
FieldLayout read_field_layout(wire::Reader& in);

/// What tells one codec's buckets from another's.
struct LevelRule {
  wire::CodecId id;
  BucketRule buckets;
  FieldCoding coding = LevelForm::packed;
  Random random = Random::philox;
};

/// random=philox, or hash.
Random random_parameter(Parameters& parameters);
/// What a spec says of it: nothing of philox.
std::string random_spec(Random random);

/// What the fields of a bucket stand for where they are coded. Of a range the level just above its middle
/// counts as 0: what lies around it has the short codes.
constexpr LevelRange coded_range(const BucketRule& rule) {
  return rule.range() ? LevelRange{1u << (rule.bits - 1), (1u << rule.bits) - 1}
                      : levels_each_side(rule.a_side);
}

/// Levels a side of qsgd that the front of a payload states as bits; the others stand for themselves.
constexpr bool is_short_form(unsigned s) {
  return s == levels_a_side(2) || s == levels_a_side(4) || s == levels_a_side(8);
}
inline constexpr unsigned kLevelsASideMax = 65535;
/// The part of a payload between its header and its scales.
void write_level_front(wire::Writer& out, const LevelRule& rule);

/// Payload: header, u8 bits, u8 layout, varint bucket, where bits is 0 (qsgd, levels that are no short form)
/// varint levels a side, per bucket one or two fp32, the fields: packed in ceil(n·field_bits/8) bytes, or
/// coded. A negative or falling scale, and a field that no encoder writes, are refused.
std::size_t level_max_bytes(const LevelRule& rule, std::size_t n);
/// Each bucket is measured, rounded, packed and, where state is given, its residual written while it is in
/// the cache. Then what is encoded is v = x + e; on a throw e stands, up to rounding.
std::size_t encode_levels(const LevelRule& rule, std::span<const float> x, FeedbackState* state,
                          RandomKey key, Workspace& workspace, std::span<std::byte> out);
/// The scales of a bucket that was measured, `first` being its first entry of n; throws EncodeError where an
/// entry of v, or the l2 norm, is not finite.
void write_bucket_scales(const BucketRule& rule, const Measured& found, std::span<const float> v,
                         std::size_t first, std::size_t n, std::byte* scales);
/// Reads what follows the header; range tells which of the two kinds of bucket.
void decode_levels(bool range, wire::Reader& in, float weight, std::span<float> acc, Threads* threads);

/// e of a layer of n entries, zeros at first; e was empty before where it is so again after a throw. Throws
/// EncodeError where the state is another layer's.
class Residual {
 public:
  Residual(FeedbackState* state, std::size_t n);
  ~Residual();
  Residual(const Residual&) = delete;
  Residual& operator=(const Residual&) = delete;
  float* data() { return state_ == nullptr ? nullptr : state_->residual.data(); }
  void keep() { fresh_ = false; }

 private:
  FeedbackState* state_;
  bool fresh_ = false;
};

}  // namespace gossamer::compress
