#pragma once
// The level kernels in plain C++: all of them where Highway is absent, tails and scalars where it is there.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "level_formulas.h"
#include "level_kernels.h"

namespace gossamer::compress::plain {

inline constexpr std::size_t kSumLanes = 32;
inline constexpr std::uint32_t kMagnitude = 0x7fffffffu;

/// What to prefetch while entry i of a stream is worked on; past the end of the array it is only a hint.
inline const float* ahead(const float* x, std::size_t i) {
  constexpr std::size_t kAhead = 2048;
  return reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(x + i) + kAhead * sizeof(float));
}

/// Lane j gets j + half, then j + a quarter, …
template <std::size_t kCount>
double combine_lanes(std::array<double, kCount> lane) {
  for (std::size_t width = kCount / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

/// Takes v[0 … n) into the largest magnitude and the range; the start of a range is the caller's.
inline void measure_entries(const float* v, std::size_t n, Measured& measured) {
  auto largest = std::bit_cast<std::uint32_t>(measured.largest);
  for (std::size_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(v[i]) & kMagnitude);
    measured.low = v[i] < measured.low ? v[i] : measured.low;
    measured.high = v[i] > measured.high ? v[i] : measured.high;
  }
  measured.largest = std::bit_cast<float>(largest);
}

/// 2^bits + zero + u of entry j of the group.
inline float with_draw(const Levels& levels, const Draws& draws, std::size_t j) {
  const std::size_t half = j / Draws::kRow;
  const std::uint64_t word = draws.words[half / 2 * Draws::kRow + j % Draws::kRow];
  const std::uint64_t draw = half % 2 == 0 ? word << 16 : word;
  return place_draw(levels, static_cast<std::uint32_t>(draw >> 16));
}

inline void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc,
                       std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) acc[i] += weight * value(levels, fields[i]);
}

inline Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  if (e != nullptr) {
    for (std::size_t i = 0; i < n; ++i) v[i] = x[i] + e[i];
  } else {
    v = const_cast<float*>(x);
  }
  Measured measured;
  if (n > 0) measured.low = measured.high = v[0];
  measure_entries(v, n, measured);
  measured.low += 0.0f;
  measured.high += 0.0f;
  if (what != Measure::squares) return measured;
  std::array<double, kSumLanes> lane{};
  for (std::size_t i = 0; i < n; ++i) lane[i % lane.size()] += static_cast<double>(v[i]) * v[i];
  measured.squares = combine_lanes(lane);
  return measured;
}

inline void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws,
                     std::size_t first, std::uint8_t* fields, float* residual) {
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned field = field_of(levels, v[i], with_draw(levels, draws, first + i));
    fields[i] = static_cast<std::uint8_t>(field);
    if (residual != nullptr) residual[i] = v[i] - value(levels, field);
  }
}

inline void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = 0; i < n / 2; ++i)
    out[i] = static_cast<std::uint8_t>(fields[2 * i] | fields[2 * i + 1] << bits);
}

inline void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  for (std::size_t i = 0; i < n / 2; ++i) {
    const unsigned pair = in[i];
    fields[2 * i] = static_cast<std::uint8_t>(pair & ((1u << bits) - 1));
    fields[2 * i + 1] = static_cast<std::uint8_t>(pair >> bits);
  }
}

inline constexpr std::size_t kTritsPerByte = 5;
inline constexpr unsigned kTritBytes = 243;  ///< 3⁵

/// Bytes b … row.
inline void pack_trits(const std::uint8_t* digits, std::size_t row, std::size_t b, std::uint8_t* out) {
  for (; b < row; ++b) {
    unsigned byte = digits[4 * row + b];
    for (std::size_t k = 4; k-- > 0;) byte = 3 * byte + digits[k * row + b];
    out[b] = static_cast<std::uint8_t>(byte);
  }
}

inline bool unpack_trits(const std::uint8_t* in, std::size_t row, std::size_t b, std::uint8_t* digits) {
  unsigned most = 0;
  for (; b < row; ++b) {
    unsigned rest = in[b];
    most = rest > most ? rest : most;
    for (std::size_t k = 0; k < kTritsPerByte; ++k) {
      const unsigned third = rest * 171u >> 9;  // rest/3 up to 255
      digits[k * row + b] = static_cast<std::uint8_t>(rest - 3 * third);
      rest = third;
    }
  }
  return most < kTritBytes;
}

inline bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return std::all_of(fields, fields + n, [&](std::uint8_t field) { return field <= top; });
}

}  // namespace gossamer::compress::plain
