#pragma once
// Sums in double, in eight lanes combined in a fixed order: the same bits on every machine, and no square of
// a float overflows or vanishes.
#include <array>
#include <cstddef>
#include <span>

namespace gossamer::compress {

inline double combine(const std::array<double, 8>& lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// Σ term(v_i).
template <class Term>
double sum_in_lanes(std::span<const float> v, Term term) {
  std::array<double, 8> lane{};
  std::size_t i = 0;
  for (; i + lane.size() <= v.size(); i += lane.size()) {
    for (std::size_t j = 0; j < lane.size(); ++j) lane[j] += term(static_cast<double>(v[i + j]));
  }
  for (; i < v.size(); ++i) lane[0] += term(static_cast<double>(v[i]));
  return combine(lane);
}

inline double sum_of_squares(std::span<const float> v) {
  return sum_in_lanes(v, [](double x) { return x * x; });
}

}  // namespace gossamer::compress
