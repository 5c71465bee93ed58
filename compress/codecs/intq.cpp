#include <array>
#include <cmath>
#include <string>

#include "fused_codec.h"
#include "level_payload.h"

namespace gossamer::compress {
namespace {

/// Per bucket the 2^b evenly spaced levels from its least to its greatest entry, ends included, b = 8, 4 or
/// 2; an entry goes to the nearest, or to one of its two neighbours so that the mean is right (the uniform
/// affine quantiser; Seide's and QSGD's stochastic rounding on it).
///
/// With L = 2^b − 1 an entry is wrong by at most (max − min)/2L where rounding is nearest, by less than
/// (max − min)/L where it is stochastic: at most ‖v‖∞/L and 2‖v‖∞/L. L ≥ 3 makes both a sure contraction in
/// the max norm, which is the guarantee that contractive stands on here. In the l2 norm it is none for every
/// v: zero need not be a level, so that a bucket of zeros and two large entries of either sign gets noise of
/// size max/L in every entry. stochastic is unbiased (16 random bits per entry: to 2⁻¹⁶ of a level; 14 for 8
/// bits), nearest is not. A little float rounding comes on top.
///
/// Payload: see level_payload.h; the scales of a bucket are its least and its greatest entry.
class IntQ final : public FusedCodec {
 public:
  IntQ(const BucketRule& buckets, FieldCoding coding, Random random)
      : rule_{wire::CodecId::intq, buckets, coding, random} {}

  std::string spec() const override {
    const BucketRule& buckets = rule_.buckets;
    return "intq:bits=" + std::to_string(buckets.bits) + ",bucket=" + std::to_string(buckets.bucket) +
           ",rounding=" + (buckets.stochastic ? "stochastic" : "nearest") +
           ",coding=" + std::string(field_coding_name(rule_.coding)) + random_spec(rule_.random);
  }
  std::string_view name() const override { return "intq"; }
  Traits traits() const override {
    const double levels = std::ldexp(1.0, static_cast<int>(rule_.buckets.bits)) - 1;
    const double error = (rule_.buckets.stochastic ? 2 : 1) / levels, delta = (1 - error) * (1 - error);
    return {.unbiased = rule_.buckets.stochastic, .contractive = true, .delta = delta, .promised = delta};
  }

  std::size_t max_bytes(std::size_t n) const override { return level_max_bytes(rule_, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey key, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_levels(rule_, g, state, key, workspace, out);
  }
  LevelRule rule_;
};

}  // namespace

std::unique_ptr<const Codec> make_intq(Parameters& parameters) {
  const std::size_t bits =
      parameters.integer("bits", 8, "2, 4 or 8", [](std::size_t b) { return b == 2 || b == 4 || b == 8; });
  const std::size_t bucket = bucket_parameter(parameters);
  constexpr std::array<std::string_view, 2> kRoundings = {"nearest", "stochastic"};
  const bool stochastic = parameters.choice("rounding", kRoundings) == 1;
  const BucketRule buckets{.measure = Measure::range,
                           .bits = static_cast<unsigned>(bits),
                           .bucket = bucket,
                           .stochastic = stochastic};
  const FieldCoding coding = field_coding_parameter(parameters);
  return std::make_unique<IntQ>(buckets, coding, stochastic ? random_parameter(parameters) : Random::philox);
}

void decode_intq(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_levels(true, in, weight, acc, threads);
}

}  // namespace gossamer::compress
