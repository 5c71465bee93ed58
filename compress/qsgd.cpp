#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "fused_codec.h"
#include "level_payload.h"

namespace gossamer::compress {
namespace {

/// Per bucket Q(v_i) = ‖v‖·sign(v_i)·ξ_i, ξ_i ∈ {l/s, (l+1)/s} drawn so that E[ξ_i] = |v_i|/‖v‖ (Alistarh et
/// al. 2017, "QSGD"), s = 2^(bits−1) − 1, in fields of `bits` bits. 16 random bits per entry (14 for 8 bits):
/// the chance of rounding up is right to 2⁻¹⁶ (2⁻¹⁴), so that |E[Q(v_i)] − v_i| ≤ ‖v‖/s·2⁻¹⁶ (‖v‖/s·2⁻¹⁴)
/// and a little float rounding.
///
/// May it run under error feedback? d is the bucket, ω the relative variance E‖Q(v)−v‖²/‖v‖₂².
///
/// norm=l2: ω ≤ min(d/s², √d/s). Below 1 the rule is contractive; otherwise it is taken not to be.
///
/// norm=max, s ≥ 2 (4 and 8 bits): an entry is wrong by less than a level, so that ‖Q(v)−v‖∞ ≤ ‖v‖∞/s with
/// certainty, a contraction in the max norm whatever v and d are. With e' = (g+e) − Q(g+e) this keeps
/// ‖e‖∞ ≤ max‖g‖∞/(s−1) for ever. In the l2 norm it is not one for every v: the worst has one entry M and d−1
/// of at most M/√(d−1), where ω = (√(1+(d−1)/s²) − 1)/2. That is under 1 for d−1 < 8s² (8 bits: d ≤ 129 032;
/// 4 bits: d ≤ 392), and 1.19 at 4 bits and bucket 512. Measured ω at 4 bits: 0.04 Gaussian, 0.08 Laplacian.
///
/// norm=max, s = 1 (2 bits): the max-norm factor is 1 and ω reaches (√d − 1)/2: not contractive.
///
/// Level l of −s … s is the field l + s; field 2s + 1 is never written. Payload: see level_payload.h.
class Qsgd final : public FusedCodec {
 public:
  Qsgd(const BucketRule& buckets, FieldCoding coding, Random random)
      : rule_{wire::CodecId::qsgd, buckets, coding, random} {}

  std::string spec() const override {
    return "qsgd:bits=" + std::to_string(buckets().bits) + ",bucket=" + std::to_string(buckets().bucket) +
           ",norm=" + (buckets().measure == Measure::largest ? "max" : "l2") +
           ",coding=" + std::string(field_coding_name(rule_.coding)) + random_spec(rule_.random);
  }
  std::string_view name() const override { return "qsgd"; }

  Traits traits() const override {
    const auto d = static_cast<double>(buckets().bucket),
               s = static_cast<double>(levels_a_side(buckets().bits));
    const bool largest = buckets().measure == Measure::largest;
    const bool contractive = largest ? s >= 2 : std::min(d / (s * s), std::sqrt(d) / s) < 1;
    const double variance = d / (6 * s * s);  // l2, of entries that are spread over a level or less
    const double delta = largest ? (1 - 1 / s) * (1 - 1 / s) : (1 - variance) / (1 + variance);
    return {.unbiased = true, .contractive = contractive, .delta = contractive ? delta : 0};
  }

  std::size_t max_bytes(std::size_t n) const override { return level_max_bytes(rule_, n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey key, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_levels(rule_, g, state, key, workspace, out);
  }
  const BucketRule& buckets() const { return rule_.buckets; }

  LevelRule rule_;
};

}  // namespace

std::unique_ptr<const Codec> make_qsgd(Parameters& parameters) {
  const std::size_t bits =
      parameters.integer("bits", 4, "2, 4 or 8", [](std::size_t b) { return b == 2 || b == 4 || b == 8; });
  const std::size_t bucket = bucket_parameter(parameters);
  constexpr std::array<std::string_view, 2> kNorms = {"max", "l2"};
  const auto norm = parameters.choice("norm", kNorms) == 0 ? Measure::largest : Measure::squares;
  const BucketRule buckets{.measure = norm, .bits = static_cast<unsigned>(bits), .bucket = bucket};
  const FieldCoding coding = field_coding_parameter(parameters);
  return std::make_unique<Qsgd>(buckets, coding, random_parameter(parameters));
}

void decode_qsgd(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_levels(false, in, weight, acc, threads);
}

}  // namespace gossamer::compress
