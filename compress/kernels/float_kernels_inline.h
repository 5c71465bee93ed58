#pragma once
// The float kernels in plain C++: all of them where Highway is absent, the tails where it is there.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "float_kernels.h"

namespace gossamer::compress::plain {

inline constexpr std::uint32_t kMagnitude = 0x7fffffff;
inline constexpr std::uint32_t kMostBf16 = 0x7f7f;  ///< largest finite bfloat16

/// To nearest, ties to even, without branches. |x| ≤ 65504.
inline std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & kMagnitude;
  // Subnormal halves are multiples of 2⁻²⁴: adding ½ makes the adder round there.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
}

/// Inf for what is no number.
inline float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const float value = magnitude >= 0x0f800000u ? HUGE_VALF : std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (half & 0x8000u) << 16);
}

inline std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & kMagnitude;
  const std::uint32_t rounded = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | std::min(rounded, kMostBf16));
}

/// Magnitudes of which this is the largest may be sent.
inline float sendable(FloatFormat format, const FloatScale& scale) {
  return format == FloatFormat::fp16 && scale.up[0] == 1 && scale.up[1] == 1 ? scale.largest
                                                                             : 0x1.fffffep127f;
}

/// Value i of those at `from`.
inline float read_float(FloatFormat format, const FloatScale& scale, const std::byte* from, std::size_t i) {
  if (format == FloatFormat::fp32) {
    float value;
    std::memcpy(&value, from + 4 * i, sizeof value);
    return value;
  }
  std::uint16_t half;
  std::memcpy(&half, from + 2 * i, sizeof half);
  if (format == FloatFormat::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  return from_half(half) * scale.up[0] * scale.up[1];
}

inline void write_float(FloatFormat format, const FloatScale& scale, float v, std::byte* to, std::size_t i) {
  if (format == FloatFormat::fp32) {
    std::memcpy(to + 4 * i, &v, sizeof v);
    return;
  }
  std::uint16_t half;
  if (format == FloatFormat::bf16) {
    half = to_bf16(v);
  } else {
    const float scaled = v * scale.down[0] * scale.down[1];
    half = to_half(std::max(-scale.largest, std::min(scaled, scale.largest)));
  }
  std::memcpy(to + 2 * i, &half, sizeof half);
}

inline FloatsSent send_floats(FloatFormat format, const FloatScale& scale, const FloatInput& input,
                              std::byte* out) {
  constexpr std::size_t kGroup = 32;
  const float most = sendable(format, scale);
  const auto entry = [&](std::size_t i) {
    if (input.e == nullptr) return input.g[i];
    return input.g == nullptr ? input.e[i] : input.g[i] + input.e[i];
  };
  float largest = 0;
  for (std::size_t start = 0; start < input.n; start += kGroup) {
    const std::size_t end = std::min(start + kGroup, input.n);
    float group = 0;
    for (std::size_t i = start; i < end; ++i) {
      const float magnitude = std::fabs(entry(i));
      if (!(magnitude <= most)) return {start, largest};
      group = std::max(group, magnitude);
    }
    largest = std::max(largest, group);
    for (std::size_t i = start; i < end; ++i) {
      const float v = entry(i);
      write_float(format, scale, v, out, i);
      if (input.e != nullptr) input.e[i] = v - read_float(format, scale, out, i);
    }
  }
  return {input.n, largest};
}

inline bool add_floats(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight,
                       float* acc, std::size_t n) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = read_float(format, scale, in, i);
    finite = finite && std::isfinite(value);
    acc[i] += weight * value;
  }
  return finite;
}

inline bool sum_floats(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    float sum = x != nullptr ? factor * x[i] + 0.0f : 0.0f;
    if (came != nullptr) sum += read_float(FloatFormat::fp32, FloatScale(), came, i);
    finite = finite && std::isfinite(sum);
    std::memcpy(out + i * sizeof sum, &sum, sizeof sum);
  }
  return finite;
}

inline bool finite_floats(const std::byte* values, std::size_t n) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i)
    finite = finite && std::isfinite(read_float(FloatFormat::fp32, FloatScale(), values, i));
  return finite;
}

}  // namespace gossamer::compress::plain
