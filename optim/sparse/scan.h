#pragma once
// Scanners of numbers that take text as it comes: no locale, no copies. They read past the end of what they
// understand, up to a byte that is no digit: text ends with a zero byte (kTextPadding).
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gossamer::optim {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// The digits at p as a number; returns what follows them, p where there are none, null where they exceed 64
/// bits. Digit by digit: the indices of a line stand in order, so that their lengths are foreseen and the
/// next one is begun before this one is done (eight digits at once, without branches, took a third longer on
/// a9a).
inline const char* scan_digits(const char* p, std::uint64_t& value) {
  constexpr std::ptrdiff_t kAlwaysFit = 19;
  const char* first = p;
  for (value = 0; is_digit(*p); ++p) value = value * 10 + static_cast<std::uint64_t>(*p - '0');
  if (p - first <= kAlwaysFit) return p;
  const auto [after, error] = std::from_chars(first, p, value);
  return error == std::errc() ? after : nullptr;
}

/// Whether a number in [p, end) that no double is near is too small for one, not too large.
inline bool is_tiny(const char* p, const char* end) {
  std::int64_t places = 0;  // of the first digit that is not 0, in front of the point
  bool begun = false, behind = false;
  for (; p != end && (*p | 0x20) != 'e'; ++p) {
    if (*p == '.') behind = true;
    begun |= *p >= '1' && *p <= '9';
    if (is_digit(*p)) places += behind ? -!begun : begun;
  }
  if (p == end) return places <= 0;
  std::int64_t exponent = 0;
  const bool shrinks = *++p == '-';
  const auto [after, error] = std::from_chars(p + (*p == '+'), end, exponent);
  return error == std::errc() ? exponent + places <= 0 : shrinks;
}

/// A decimal number at p ≤ end, with sign and exponent; returns what follows it, null where there is none or
/// no finite float is near it. The nearest float to the nearest double.
inline const char* scan_decimal(const char* p, const char* end, float& value) {
  constexpr double kTens[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  constexpr double kNoFloat = 0x1.ffffffp127;  // half a unit in the last place above the largest
  const char* start = p;
  const bool negative = *p == '-';
  if (*p == '-' || *p == '+') ++p;
  if (!is_digit(*p) && *p != '.') return nullptr;  // from_chars takes names of numbers too
  std::uint64_t mantissa = 0;
  const char* first = p;
  while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
  std::ptrdiff_t digits = p - first, places = 0;
  if (*p == '.') {
    first = ++p;
    while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
    places = p - first;
    digits += places;
  }
  if (digits >= 1 && digits <= 15 && (*p | 0x20) != 'e') {  // both exact: one rounding
    const double magnitude = static_cast<double>(mantissa) / kTens[places];
    value = static_cast<float>(negative ? -magnitude : magnitude);
    return p;
  }
  double exact = 0;
  const auto [after, error] = std::from_chars(*start == '+' ? start + 1 : start, end, exact);
  if (error == std::errc::result_out_of_range && is_tiny(start, after))
    exact = negative ? -0.0 : 0.0;
  else if (error != std::errc() || !(std::abs(exact) < kNoFloat))
    return nullptr;
  value = static_cast<float>(exact);
  return after;
}

/// As scan_decimal; most values of click logs are 1.
inline const char* scan_value(const char* p, const char* end, float& value) {
  if (p[0] == '1' && (p + 1 == end || p[1] == ' ')) {
    value = 1;
    return p + 1;
  }
  return scan_decimal(p, end, value);
}

}  // namespace gossamer::optim
