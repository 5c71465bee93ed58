#include <algorithm>
#include <array>
#include <cmath>

#include "codecs.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::compress {
namespace {

constexpr float kHalfMax = 65504;        ///< largest finite half
constexpr float kHalfNormal = 0x1p-14f;  ///< smallest normal half
constexpr float kBelow15 = 32752;        ///< largest half under 2¹⁵
constexpr int kExponentMin = -163, kExponentMax = 113;
constexpr std::size_t kPiece = 1024;

/// To nearest, ties to even, without branches. |x| ≤ 65504.
std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Subnormal halves are multiples of 2⁻²⁴: adding ½ makes the adder round there.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
}

float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (half & 0x8000u) << 16);
}

/// 2^exponent in two factors, since it may lie outside float's range.
struct Scale {
  explicit Scale(int exponent)
      : first(std::ldexp(1.0f, exponent / 2)), second(std::ldexp(1.0f, exponent - exponent / 2)) {}
  float first, second;
};

/// 16-bit floats (IEEE binary16), rounded to nearest even. Where the largest magnitude is outside the normal
/// range of a half, the vector is divided by a power of two 2^k that brings it into [2¹⁴, 2¹⁵): nothing
/// overflows, and a vector of tiny gradients does not vanish. Contractive: an entry is wrong by at most 2⁻¹¹
/// of itself (2⁻¹⁰ where it is the largest and k ≠ 0) or by 2⁻²⁵·2^k, and the largest entry is not lost.
/// Payload: header, 2 bytes k, n × binary16.
class Fp16 final : public Codec {
 public:
  std::string spec() const override { return "fp16"; }
  std::string_view name() const override { return "fp16"; }
  Traits traits() const override { return {.contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override { return wire::kHeaderMax + 2 + 2 * n; }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    const int exponent = shared_exponent(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::fp16, x.size());
    const auto stored = static_cast<std::int16_t>(exponent);
    writer.bytes(&stored, sizeof stored);
    const Scale scale(-exponent);
    const float limit = exponent == 0 ? kHalfMax : kBelow15;
    std::array<std::uint16_t, kPiece> piece;
    for (std::size_t i = 0; i < x.size(); i += kPiece) {
      const auto part = x.subspan(i, std::min(kPiece, x.size() - i));
      for (std::size_t j = 0; j < part.size(); ++j) {
        const float scaled = part[j] * scale.first * scale.second;
        const float lowered = scaled > limit ? limit : scaled;
        piece[j] = to_half(lowered < -limit ? -limit : lowered);
      }
      writer.bytes(piece.data(), 2 * part.size());
    }
    return writer.size();
  }

 private:
  static int shared_exponent(std::span<const float> x) {
    const float largest = wire::largest_magnitude(x);
    if (largest == 0 || (largest >= kHalfNormal && largest <= kHalfMax)) return 0;
    return std::ilogb(largest) - 14;
  }
};

}  // namespace

std::unique_ptr<const Codec> make_fp16(Parameters&) { return std::make_unique<Fp16>(); }

void decode_fp16(wire::Reader& in, float weight, std::span<float> acc) {
  std::int16_t exponent;
  std::memcpy(&exponent, in.take(sizeof exponent).data(), sizeof exponent);
  if (exponent < kExponentMin || exponent > kExponentMax) {
    throw PayloadError("payload claims a shared exponent of " + std::to_string(exponent));
  }
  in.expect_left(2 * acc.size());
  const Scale scale(exponent);
  std::array<std::uint16_t, kPiece> piece;
  std::array<float, kPiece> values;
  while (!acc.empty()) {
    const auto part = acc.first(std::min(kPiece, acc.size()));
    std::memcpy(piece.data(), in.take(2 * part.size()).data(), 2 * part.size());
    unsigned special = 0;
    for (std::size_t j = 0; j < part.size(); ++j) {
      special |= (piece[j] & 0x7c00u) == 0x7c00u ? 1u : 0u;
      values[j] = from_half(piece[j]) * scale.first * scale.second;
    }
    const std::span<const float> decoded(values.data(), part.size());
    if (special != 0 || wire::first_not_finite(decoded) != part.size()) {
      throw PayloadError("payload holds NaN, Inf or a number beyond float's range");
    }
    axpy(weight, decoded, part);
    acc = acc.subspan(part.size());
  }
}

}  // namespace gossamer::compress
