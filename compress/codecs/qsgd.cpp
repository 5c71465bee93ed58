#include <array>
#include <string>

#include "fused_codec.h"
#include "level_count.h"

namespace gossamer::compress {
namespace {

/// Per bucket Q(v_i) = ‖v‖·sign(v_i)·ξ_i, ξ_i ∈ {l/s, (l+1)/s} drawn so that E[ξ_i] = |v_i|/‖v‖ (Alistarh et
/// al. 2017, "QSGD"), s of `levels`; bits=b is short for s = 2^(b−1) − 1. Fields have ⌈log₂(2s+1)⌉ bits. 16
/// random bits per entry (14 for 8 to 127 levels): the chance of rounding up is right to 2⁻¹⁶ (2⁻¹⁴), so that
/// |E[Q(v_i)] − v_i| ≤ ‖v‖/s·2⁻¹⁶ (‖v‖/s·2⁻¹⁴) and a little float rounding.
///
/// May it run under error feedback? d is the bucket, ω the relative variance E‖Q(v)−v‖²/‖v‖₂².
///
/// norm=l2: ω ≤ min(d/s², √d/s) in the paper. An entry at the fraction f between two levels adds f(1−f)/s² ≤
/// 1/4s², so that ω ≤ d/4s² too: contractive for 4s² > d, which levels=sqrt always has. For 4s² ≤ d equal
/// entries reach ω = √d/s − 1 ≥ 1: not contractive.
///
/// norm=max, s ≥ 2: an entry is wrong by less than a level, so that ‖Q(v)−v‖∞ ≤ ‖v‖∞/s with certainty, a
/// contraction in the max norm whatever v and d are. With e' = (g+e) − Q(g+e) this keeps ‖e‖∞ ≤
/// max‖g‖∞/(s−1) for ever. In the l2 norm it is not one for every v: the worst has one entry M and d−1 of at
/// most M/√(d−1), where ω = (√(1+(d−1)/s²) − 1)/2. That is under 1 for d−1 < 8s² (8 bits: d ≤ 129 032; 4
/// bits: d ≤ 392), and 1.19 at 4 bits and bucket 512. Measured ω at 4 bits: 0.04 Gaussian, 0.08 Laplacian.
///
/// norm=max, s = 1: the max-norm factor is 1 and ω reaches (√d − 1)/2: not contractive. (levels=sqrt is: it
/// has one level only for a vector of one entry, which it sends as it is.)
///
/// Level l of −s … s is the field l + s. Payload: see level_payload.h.
class Qsgd final : public FusedCodec {
 public:
  Qsgd(LevelCount levels, const LevelRule& rule) : levels_(levels), rule_(rule) {}

  std::string spec() const override {
    return "qsgd:" + levels_.spec() + ",bucket=" + std::to_string(rule_.buckets.bucket) +
           ",norm=" + (rule_.buckets.measure == Measure::largest ? "max" : "l2") +
           ",coding=" + std::string(field_coding_name(rule_.coding)) + random_spec(rule_.random);
  }
  std::string_view name() const override { return "qsgd"; }

  Traits traits() const override {
    const std::size_t bucket = rule_.buckets.bucket, levels = levels_.most(bucket);
    const auto d = static_cast<double>(bucket), s = static_cast<double>(levels);
    const bool largest = rule_.buckets.measure == Measure::largest;
    const bool contractive = largest ? levels >= 2 : 4 * levels * levels > bucket;
    const double variance = d / (4 * s * s);  // l2: at most a quarter of a level squared in each entry
    const double each = largest ? (1 - 1 / s) * (1 - 1 / s) : (1 - variance) / (1 + variance);
    const double delta = contractive ? each : 0;
    return {.unbiased = true, .contractive = contractive, .delta = delta, .promised = delta};
  }

  std::size_t max_bytes(std::size_t n) const override { return level_max_bytes(rule_for(n), n); }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey key, Workspace& workspace,
                    std::span<std::byte> out) const override {
    return encode_levels(rule_for(g.size()), g, state, key, workspace, out);
  }
  LevelRule rule_for(std::size_t n) const { return levels_.rule(rule_, n); }

  LevelCount levels_;
  LevelRule rule_;  ///< but for the levels
};

}  // namespace

LevelCount levels_parameter(Parameters& parameters) {
  const std::string_view levels = parameters.text("levels");
  if (!levels.empty() && !parameters.text("bits").empty())
    parameters.refuse("levels", levels, "none beside bits, which is short for levels=2^(bits-1)-1: give one");
  if (levels == "sqrt") return {0};
  if (!levels.empty()) {
    return {static_cast<unsigned>(
        parameters.integer("levels", 7, "a whole number from 1 to 65535, or sqrt",
                           [](std::size_t s) { return s >= 1 && s <= kLevelsASideMax; }))};
  }
  const std::size_t bits =
      parameters.integer("bits", 4, "2, 4 or 8; what lies between is said as levels=1 to 65535, or sqrt",
                         [](std::size_t b) { return b == 2 || b == 4 || b == 8; });
  return {levels_a_side(static_cast<unsigned>(bits))};
}

std::unique_ptr<const Codec> make_qsgd(Parameters& parameters) {
  const LevelCount levels = levels_parameter(parameters);
  const std::size_t bucket = bucket_parameter(parameters);
  constexpr std::array<std::string_view, 2> kNorms = {"max", "l2"};
  const auto norm = parameters.choice("norm", kNorms) == 0 ? Measure::largest : Measure::squares;
  const FieldCoding coding = field_coding_parameter(parameters);
  if (levels.most(bucket) > kLevelsMax && (coding == LevelForm::rice || coding == LevelForm::rans)) {
    parameters.refuse("coding", field_coding_name(coding),
                      "packed, elias, elias_dense or auto where there are more than 127 levels a side");
  }
  const LevelRule rule{
      wire::CodecId::qsgd, {.measure = norm, .bucket = bucket}, coding, random_parameter(parameters)};
  return std::make_unique<Qsgd>(levels, rule);
}

void decode_qsgd(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  decode_levels(false, in, weight, acc, threads);
}

}  // namespace gossamer::compress
