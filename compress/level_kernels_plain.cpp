#include "level_kernels_inline.h"

namespace gossamer::compress {

Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  if (e != nullptr) {
    for (std::size_t i = 0; i < n; ++i) v[i] = x[i] + e[i];
  } else {
    v = const_cast<float*>(x);
  }
  Measured measured;
  if (n > 0) measured.low = measured.high = v[0];
  plain::measure_entries(v, n, measured);
  measured.low += 0.0f;
  measured.high += 0.0f;
  if (what != Measure::squares) return measured;
  std::array<double, plain::kSumLanes> lane{};
  for (std::size_t i = 0; i < n; ++i) lane[i % lane.size()] += static_cast<double>(v[i]) * v[i];
  measured.squares = plain::combine_lanes(lane);
  return measured;
}

void draw(const EntryBits& random, std::size_t group, Draws& draws) { random.words(group, draws.words); }

void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
              std::uint8_t* fields, float* residual) {
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned field = plain::field_of(levels, v[i], plain::with_draw(levels, draws, first + i));
    fields[i] = static_cast<std::uint8_t>(field);
    if (residual != nullptr) residual[i] = v[i] - plain::value(levels, field);
  }
}

void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  plain::add_levels(levels, fields, weight, acc, n);
}

void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = 0; i < n / 2; ++i)
    out[i] = static_cast<std::uint8_t>(fields[2 * i] | fields[2 * i + 1] << bits);
}

void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  for (std::size_t i = 0; i < n / 2; ++i) {
    const unsigned pair = in[i];
    fields[2 * i] = static_cast<std::uint8_t>(pair & ((1u << bits) - 1));
    fields[2 * i + 1] = static_cast<std::uint8_t>(pair >> bits);
  }
}

bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return std::all_of(fields, fields + n, [&](std::uint8_t field) { return field <= top; });
}

}  // namespace gossamer::compress
