#pragma once
// 16-bit floats of half.h and bf16.cpp, one number at a time.
#include "device.cuh"

namespace gossamer::compress::cuda {

inline constexpr float kHalfMax = 65504;
inline constexpr int kExponentMin = -163, kExponentMax = 113;

/// 2^e for −126 ≤ e ≤ 127.
constexpr float power_of_two(int e) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
}

/// 2^exponent in two factors, since it may lie outside float's range.
struct TwoFactors {
  constexpr explicit TwoFactors(int exponent)
      : first(power_of_two(exponent / 2)), second(power_of_two(exponent - exponent / 2)) {}
  constexpr float times(float x) const { return x * first * second; }
  float first, second;
};

/// ⌊log₂⌋ of a magnitude's bits, not 0.
constexpr int log2_of(std::uint32_t magnitude) {
  if (magnitude >= 0x00800000u) return static_cast<int>(magnitude >> 23) - 127;
  int log = -149;
  for (std::uint32_t rest = magnitude >> 1; rest != 0; rest >>= 1) ++log;
  return log;
}

/// The shared exponent of halves whose largest magnitude has these bits.
constexpr int shared_exponent(std::uint32_t largest) {
  const float value = std::bit_cast<float>(largest);
  return largest == 0 || (value >= 0x1p-14f && value <= kHalfMax) ? 0 : log2_of(largest) - 14;
}

/// To nearest, ties to even. |x| ≤ 65504.
constexpr std::uint32_t to_half(float x) {
  const std::uint32_t magnitude = magnitude_of(x);
  // Subnormal halves are multiples of 2⁻²⁴: adding ½ makes the adder round there.
  const std::uint32_t subnormal = bits_of(absolute(x) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  return (bits_of(x) >> 16 & 0x8000u) | (magnitude < 0x38800000u ? subnormal : normal);
}

constexpr float from_half(std::uint32_t half) {
  const float value = std::bit_cast<float>((half & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(bits_of(value) | (half & 0x8000u) << 16);
}

/// What halves with one shared exponent have in common.
struct HalfScale {
  TwoFactors down, up;
  float limit;
};
constexpr HalfScale half_scale(int exponent) {
  return {TwoFactors(-exponent), TwoFactors(exponent), exponent == 0 ? kHalfMax : 32752.0f};
}
/// From the 2 bytes of a payload; refuses an exponent that shared_exponent never gives.
__device__ inline HalfScale read_half_scale(const std::byte* at, DeviceResult* result) {
  const auto exponent = static_cast<std::int16_t>(get_word(at, 2));
  if (exponent >= kExponentMin && exponent <= kExponentMax) return half_scale(exponent);
  refuse_payload(result, DeviceError::number);
  return half_scale(0);
}
constexpr std::uint32_t half_field(const HalfScale& s, float x) {
  const float scaled = s.down.times(x);
  const float lowered = scaled > s.limit ? s.limit : scaled;
  return to_half(lowered < -s.limit ? -s.limit : lowered);
}
/// NaN where the field stands for no number.
constexpr float half_value(const HalfScale& s, std::uint32_t field) {
  if ((field & 0x7c00u) == 0x7c00u) return std::bit_cast<float>(0x7fc00000u);
  return s.up.times(from_half(field));
}

/// To nearest, ties to even; what would round to Inf becomes the largest finite number.
constexpr std::uint32_t to_bf16(float x) {
  const std::uint32_t magnitude = magnitude_of(x);
  const std::uint32_t rounded = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
  return (bits_of(x) >> 16 & 0x8000u) | (rounded < 0x7f7fu ? rounded : 0x7f7fu);
}

constexpr float from_bf16(std::uint32_t code) { return std::bit_cast<float>(code << 16); }

}  // namespace gossamer::compress::cuda
