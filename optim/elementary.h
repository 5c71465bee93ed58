#pragma once
// exp, log and cos from + − × ÷ alone: the same bits from every compiler and C library, and loops over them
// become vector loops. Arguments are reduced to a short interval, where a Taylor polynomial is as exact as
// the type. What is constexpr may be called on a device.
#include <bit>
#include <cstdint>

namespace gossamer::optim {

/// e^x, relative error < 2e-7; x is clamped to [−87, 88]; NaN stays NaN.
constexpr float portable_exp(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5·2^23: adding and subtracting it rounds to an integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float low = x < -87.0f ? -87.0f : x;
  const float clamped = low > 88.0f ? 88.0f : low;
  const float n = (clamped * 1.44269504f + kShift) - kShift;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float whole = n == n ? n : 0.0f;  // a NaN must not be converted to an integer; p carries it on
  const auto bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) + 127) << 23;
  return p * std::bit_cast<float>(bits);
}

/// e^x, relative error < 1e-14; x is clamped to [−700, 700].
constexpr double portable_exp(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5·2^52
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  const double clamped = x < -700 ? -700 : x > 700 ? 700 : x;
  const double n = (clamped * 1.4426950408889634 + kShift) - kShift;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double p = 1;
  for (int k = 13; k > 0; --k) p = 1 + p * r / k;
  const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52;
  return p * std::bit_cast<double>(bits);
}

/// ln x for finite normal x > 0, relative error < 1e-13; NaN stays NaN, infinity stays infinity.
constexpr double portable_log(double x) {
  if (!(x < 1e308)) return x;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000F'FFFF'FFFF'FFFFULL) | 0x3FF0'0000'0000'0000ULL);  // [1, 2)
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1), s2 = s * s;  // ln m = 2·artanh s, |s| < 0.172
  double series = 0;
  for (int k = 17; k > 0; k -= 2) series = series * s2 + 1.0 / k;
  return 2 * s * series + exponent * 0.6931471805599453;
}

/// cos(π·p) for p in [0, 1], absolute error < 1e-14.
inline double portable_cos_pi(double p) {
  const double y = (0.5 - p) * 3.14159265358979323846, y2 = y * y;  // cos πp = sin y
  double series = 1;
  for (int k = 20; k > 1; k -= 2) series = 1 - series * y2 / (k * (k + 1));
  return y * series;
}

/// base^n by squaring: multiplications only, so that the bits are the same everywhere.
inline double power(double base, std::uint64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return result;
}

}  // namespace gossamer::optim
