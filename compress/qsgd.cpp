#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codecs.h"
#include "fields.h"
#include "sums.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;

/// Levels on each side of zero; level l of −s … s is the field l + s, and field 2s + 1 is never written.
constexpr std::size_t levels(std::size_t bits) { return (std::size_t{1} << (bits - 1)) - 1; }

/// Rounded up, so that no entry exceeds it; Inf where it is beyond float's range.
float l2_norm(std::span<const float> v) {
  const double norm = std::sqrt(sum_of_squares(v));
  if (norm > static_cast<double>(std::numeric_limits<float>::max()))
    return std::numeric_limits<float>::infinity();
  const auto rounded = static_cast<float>(norm);
  return rounded < norm ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
}

/// Per bucket Q(v_i) = ‖v‖·sign(v_i)·ξ_i, ξ_i ∈ {l/s, (l+1)/s} drawn so that E[ξ_i] = |v_i|/‖v‖ (Alistarh et
/// al. 2017, "QSGD"), s = 2^(bits−1) − 1, in fields of `bits` bits. 16 random bits per entry: the chance of
/// rounding up is right to 2⁻¹⁷, so that |E[Q(v_i)] − v_i| ≤ ‖v‖/s·2⁻¹⁷ and a little float rounding.
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
/// Payload: header, u8 bits, varint bucket, one fp32 norm per bucket, ceil(n·bits/8) bytes of fields.
class Qsgd final : public Codec {
 public:
  enum class Norm { max, l2 };
  Qsgd(std::size_t bits, std::size_t bucket, Norm norm) : bits_(bits), bucket_(bucket), norm_(norm) {}

  std::string spec() const override {
    return "qsgd:bits=" + std::to_string(bits_) + ",bucket=" + std::to_string(bucket_) +
           ",norm=" + (norm_ == Norm::max ? "max" : "l2");
  }
  std::string_view name() const override { return "qsgd"; }

  Traits traits() const override {
    const auto d = static_cast<double>(bucket_), s = static_cast<double>(levels(bits_));
    const bool contractive = norm_ == Norm::max ? s >= 2 : std::min(d / (s * s), std::sqrt(d) / s) < 1;
    return {.unbiased = true, .contractive = contractive};
  }

  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + 1 + wire::kVarintMax + wire::ceil_div(n, bucket_) * sizeof(float) +
           wire::ceil_div(n, 8 / bits_);
  }

  std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::qsgd, x.size());
    writer.u8(static_cast<std::uint8_t>(bits_));
    writer.varint(bucket_);
    const std::size_t buckets = wire::ceil_div(x.size(), bucket_);
    const std::span<float> norm = workspace.more_floats(buckets);
    for (std::size_t b = 0; b < buckets; ++b) norm[b] = norm_of(x, b);
    writer.bytes(norm.data(), norm.size_bytes());
    const EntryBits random(key);
    EntryBits::Group draws;
    Fields codes;
    for (std::size_t i = 0; i < x.size(); i += kGroup) {
      random.group(i / kGroup, draws);
      const std::size_t count = std::min(kGroup, x.size() - i);
      for (std::size_t j = 0; j < count;) {
        const std::size_t b = (i + j) / bucket_;
        const std::size_t end = std::min(count, (b + 1) * bucket_ - i);
        round(x.data() + i, norm[b], draws, j, end, codes);
        j = end;
      }
      pack_fields(bits_, codes, count, writer.skip(wire::ceil_div(count, 8 / bits_)));
    }
    return writer.size();
  }

 private:
  float norm_of(std::span<const float> x, std::size_t b) const {
    const auto bucket = x.subspan(b * bucket_, std::min(bucket_, x.size() - b * bucket_));
    const float norm = norm_ == Norm::max ? wire::largest_magnitude(bucket) : l2_norm(bucket);
    if (std::isfinite(norm)) return norm;
    throw EncodeError("cannot encode: the l2 norm of entries " + std::to_string(b * bucket_) + " to " +
                      std::to_string(b * bucket_ + bucket.size() - 1) +
                      " is beyond float's range; use norm=max or clip");
  }

  /// Fields of the entries j … end of one group, which share one norm.
  void round(const float* x, float norm, const EntryBits::Group& draws, std::size_t j, std::size_t end,
             Fields& codes) const {
    const auto s = static_cast<std::int32_t>(levels(bits_));
    // A power of two moves norms near the ends of float's range to where s/norm and x·s/norm are exact
    // enough.
    const float shift = norm < 0x1p-70f ? 0x1p80f : norm > 0x1p70f ? 0x1p-80f : 1.0f;
    const float inverse = norm > 0 ? static_cast<float>(s) / (norm * shift) : 0.0f;
    for (; j < end; ++j) {
      const float up = (static_cast<float>(draws[j]) + 0.5f) * 0x1p-16f;
      const float position = std::fabs(x[j] * shift) * inverse + up;
      const std::int32_t level = std::min(static_cast<std::int32_t>(position), s);
      const std::int32_t sign = std::bit_cast<std::int32_t>(x[j]) >> 31;  // 0 or −1
      codes[j] = static_cast<std::uint8_t>(((level ^ sign) - sign) + s);
    }
  }

  std::size_t bits_, bucket_;
  Norm norm_;
};

/// weight · ‖v‖·(l/s) for every field, by one table per bucket; the ratio of the highest level is exactly 1.
class FieldValues {
 public:
  explicit FieldValues(std::size_t bits) : count_(2 * levels(bits) + 1) {
    const auto s = static_cast<float>(levels(bits));
    for (std::size_t i = 0; i < count_; ++i) ratio_[i] = (static_cast<float>(i) - s) / s;
  }
  std::size_t count() const { return count_; }
  /// For few entries per value each is computed on the way instead.
  void add(const Fields& codes, std::size_t j, std::size_t end, float norm, float weight, float* acc) const {
    if (count_ > 16) {
      for (; j < end; ++j) acc[j] += weight * (norm * ratio_[codes[j]]);
      return;
    }
    std::array<float, 16> value;
    for (std::size_t i = 0; i < count_; ++i) value[i] = weight * (norm * ratio_[i]);
    for (; j < end; ++j) acc[j] += value[codes[j]];
  }

 private:
  std::array<float, 256> ratio_{};
  std::size_t count_;
};

void check_codes(const Fields& codes, std::size_t count, std::size_t unused, std::size_t padded) {
  unsigned bad = 0;
  for (std::size_t j = 0; j < count; ++j) bad |= codes[j] == unused ? 1u : 0u;
  for (std::size_t j = count; j < padded; ++j) bad |= codes[j];
  if (bad != 0)
    throw PayloadError("payload holds a level beyond the highest, or bits set past its last entry");
}

}  // namespace

std::unique_ptr<const Codec> make_qsgd(Parameters& parameters) {
  const std::size_t bits =
      parameters.integer("bits", 4, "2, 4 or 8", [](std::size_t b) { return b == 2 || b == 4 || b == 8; });
  const std::size_t bucket = bucket_parameter(parameters);
  constexpr std::array<std::string_view, 2> kNorms = {"max", "l2"};
  const auto norm = parameters.choice("norm", kNorms) == 0 ? Qsgd::Norm::max : Qsgd::Norm::l2;
  return std::make_unique<Qsgd>(bits, bucket, norm);
}

void decode_qsgd(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t bits = in.u8();
  if (bits != 2 && bits != 4 && bits != 8) {
    throw PayloadError("payload claims " + std::to_string(bits) + " bits per entry, expected 2, 4 or 8");
  }
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t n = acc.size(), per_byte = 8 / bits;
  const std::size_t buckets = wire::ceil_div(n, bucket);
  in.expect_left(buckets * sizeof(float) + wire::ceil_div(n, per_byte));
  wire::Reader norms(in.take(buckets * sizeof(float)));
  const FieldValues values(bits);
  Fields codes;
  float norm = 0;
  for (std::size_t i = 0; i < n; i += kGroup) {
    const std::size_t count = std::min(kGroup, n - i);
    const std::size_t bytes = wire::ceil_div(count, per_byte);
    unpack_fields(bits, in.take(bytes).data(), count, codes);
    check_codes(codes, count, values.count(), bytes * per_byte);
    for (std::size_t j = 0; j < count;) {
      if ((i + j) % bucket == 0) norm = norms.f32();
      if (std::signbit(norm)) throw PayloadError("payload holds a negative norm");
      const std::size_t end = std::min(count, j + bucket - (i + j) % bucket);
      values.add(codes, j, end, norm, weight, acc.data() + i);
      j = end;
    }
  }
}

}  // namespace gossamer::compress
