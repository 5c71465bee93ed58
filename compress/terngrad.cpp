#include <algorithm>
#include <array>
#include <cmath>

#include "codecs.h"
#include "philox.h"
#include "sums.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kPerByte = 5;  ///< 3⁵ = 243 of a byte's 256 values
constexpr std::size_t kTrits = 243;
constexpr std::size_t kGroup = EntryBits::kGroup;
constexpr std::size_t kPiece = kPerByte * kGroup;  ///< whole groups of draws and whole bytes

/// Digits of every byte that is one, lowest first; digit t stands for t − 1.
constexpr auto kDigits = [] {
  std::array<std::array<std::uint8_t, kPerByte>, kTrits> all{};
  for (std::size_t b = 0; b < kTrits; ++b) {
    for (std::size_t j = 0, rest = b; j < kPerByte; ++j, rest /= 3) {
      all[b][j] = static_cast<std::uint8_t>(rest % 3);
    }
  }
  return all;
}();

/// Q(v_i) = S·sign(v_i)·b_i with S = max|v|, P(b_i = 1) = |v_i|/S, after clipping to |v_i| ≤ c·σ (Wen et al.
/// 2017, "TernGrad", equations 1, 2 and 10): qsgd with one level and the max norm, one S for the whole
/// vector. σ is the root mean square, which is the standard deviation for entries of mean zero and, other
/// than that, does not vanish for equal entries. Parameter clip is c, or none.
///
/// Unbiased on the clipped vector, so as a whole only for clip=none. The relative variance S‖v‖₁/‖v‖₂² − 1
/// reaches (√n − 1)/2 and for c = 2.5 is about 1 on Gaussian entries: not contractive.
///
/// Payload: header, fp32 S, ceil(n/5) bytes of five ternary digits each (1.6 bits per entry).
class TernGrad final : public Codec {
 public:
  /// clip 0 = none.
  explicit TernGrad(double clip) : clip_(clip) {}

  std::string spec() const override { return "terngrad:clip=" + (clip_ > 0 ? to_text(clip_) : "none"); }
  std::string_view name() const override { return "terngrad"; }
  Traits traits() const override { return {.unbiased = clip_ == 0}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + sizeof(float) + wire::ceil_div(n, kPerByte);
  }

  std::size_t encode(std::span<const float> x, RandomKey key, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::terngrad, x.size());
    const float scale = scale_of(x);
    writer.f32(scale);
    const EntryBits random(key);
    std::array<std::uint8_t, kPiece> trits;
    for (std::size_t i = 0; i < x.size(); i += kPiece) {
      const std::size_t count = std::min(kPiece, x.size() - i);
      for (std::size_t g = 0; g < count; g += kGroup) {
        round(x.subspan(i + g, std::min(kGroup, count - g)), (i + g) / kGroup, scale, random,
              trits.data() + g);
      }
      const std::size_t bytes = wire::ceil_div(count, kPerByte);
      std::fill(trits.begin() + static_cast<std::ptrdiff_t>(count),
                trits.begin() + static_cast<std::ptrdiff_t>(bytes * kPerByte), std::uint8_t{0});
      std::byte* const packed = writer.skip(bytes);
      for (std::size_t b = 0; b < bytes; ++b) {
        const std::uint8_t* t = trits.data() + kPerByte * b;
        packed[b] = static_cast<std::byte>(t[0] + 3 * (t[1] + 3 * (t[2] + 3 * (t[3] + 3 * t[4]))));
      }
    }
    return writer.size();
  }

 private:
  float scale_of(std::span<const float> x) const {
    const float largest = wire::largest_magnitude(x);
    if (clip_ == 0 || x.empty()) return largest;
    const double limit = clip_ * std::sqrt(sum_of_squares(x) / static_cast<double>(x.size()));
    return limit < static_cast<double>(largest) ? static_cast<float>(limit) : largest;
  }

  /// Digits of at most one group of entries.
  static void round(std::span<const float> x, std::size_t group, float scale, const EntryBits& random,
                    std::uint8_t* trits) {
    EntryBits::Group draws;
    random.group(group, draws);
    // A power of two moves scales near the ends of float's range to where x/scale is exact enough.
    const float shift = scale < 0x1p-70f ? 0x1p80f : scale > 0x1p70f ? 0x1p-80f : 1.0f;
    const float inverse = scale > 0 ? 1.0f / (scale * shift) : 0.0f;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float up = (static_cast<float>(draws[j]) + 0.5f) * 0x1p-16f;
      const auto one = static_cast<std::int32_t>(std::fabs(x[j] * shift) * inverse + up >= 1.0f);
      const std::int32_t sign = std::bit_cast<std::int32_t>(x[j]) >> 31;  // 0 or −1
      trits[j] = static_cast<std::uint8_t>(((one ^ sign) - sign) + 1);
    }
  }

  double clip_;
};

}  // namespace

std::unique_ptr<const Codec> make_terngrad(Parameters& parameters) {
  double clip = 0;
  if (parameters.text("clip") != "none") {
    clip = parameters.real("clip", 2.5, "a number above 0, or none",
                           [](double c) { return c > 0 && std::isfinite(c); });
  }
  return std::make_unique<TernGrad>(clip);
}

void decode_terngrad(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const float scale = in.f32();
  if (std::signbit(scale)) throw PayloadError("payload holds a negative scale");
  const auto packed = in.take(wire::ceil_div(acc.size(), kPerByte));
  in.expect_left(0);
  const std::array<float, 3> step = {weight * -scale, 0.0f, weight * scale};
  for (std::size_t b = 0; b < packed.size(); ++b) {
    const auto byte = static_cast<std::size_t>(packed[b]);
    if (byte >= kTrits) throw PayloadError("payload holds a byte that is not five ternary digits");
    const auto& digits = kDigits[byte];
    const std::size_t count = std::min(kPerByte, acc.size() - b * kPerByte);
    for (std::size_t j = 0; j < count; ++j) acc[b * kPerByte + j] += step[digits[j]];
    for (std::size_t j = count; j < kPerByte; ++j) {
      if (digits[j] != 0) throw PayloadError("payload holds digits past its last entry");
    }
  }
}

}  // namespace gossamer::compress
