#include "half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace gossamer::compress {
namespace {

constexpr std::size_t kPiece = 1024;
constexpr float kHalfMax = 65504;        ///< largest finite half
constexpr float kHalfNormal = 0x1p-14f;  ///< smallest normal half
constexpr float kBelow15 = 32752;        ///< largest half under 2¹⁵
constexpr int kExponentMin = -163, kExponentMax = 113;

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

int shared_exponent(std::span<const float> x) {
  const float largest = wire::largest_magnitude(x);
  if (largest == 0 || (largest >= kHalfNormal && largest <= kHalfMax)) return 0;
  return std::ilogb(largest) - 14;
}

}  // namespace

void write_halves(wire::Writer& out, std::span<const float> x) {
  const int exponent = shared_exponent(x);
  const auto stored = static_cast<std::int16_t>(exponent);
  out.bytes(&stored, sizeof stored);
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
    out.bytes(piece.data(), 2 * part.size());
  }
}

HalfReader::HalfReader(wire::Reader& in, std::size_t n) : halves_(std::span<const std::byte>()) {
  std::int16_t exponent;
  std::memcpy(&exponent, in.take(sizeof exponent).data(), sizeof exponent);
  if (exponent < kExponentMin || exponent > kExponentMax) {
    throw PayloadError("payload claims a shared exponent of " + std::to_string(exponent));
  }
  const Scale scale(exponent);
  first_ = scale.first;
  second_ = scale.second;
  halves_ = wire::Reader(in.take(2 * n));
}

void HalfReader::next(std::span<float> values) {
  assert(values.size() <= kPiece);
  std::array<std::uint16_t, kPiece> piece;
  std::memcpy(piece.data(), halves_.take(2 * values.size()).data(), 2 * values.size());
  unsigned special = 0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    special |= (piece[j] & 0x7c00u) == 0x7c00u ? 1u : 0u;
    values[j] = from_half(piece[j]) * first_ * second_;
  }
  if (special != 0 || wire::first_not_finite(values) != values.size()) {
    throw PayloadError("payload holds NaN, Inf or a number beyond float's range");
  }
}

}  // namespace gossamer::compress
