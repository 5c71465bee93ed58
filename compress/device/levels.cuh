#pragma once
// What of a bucket's entries has to be known before they are rounded, found by one warp, lane j taking
// entries j, j
// + 32, …: measure() of level_kernels.h.
#include <cmath>

#include "device.cuh"
#include "level_formulas.h"

namespace gossamer::compress::cuda {

struct LaneMeasure {
  std::uint32_t largest = 0;
  float low = std::bit_cast<float>(0x7f800000u), high = std::bit_cast<float>(0xff800000u);
  double squares = 0;

  /// An entry, for what is wanted of it; the largest magnitude always is.
  __device__ void take(float v, Measure what) {
    const std::uint32_t magnitude = magnitude_of(v);
    largest = magnitude > largest ? magnitude : largest;
    if (what == Measure::range) {
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
    if (what == Measure::squares) squares += static_cast<double>(v) * static_cast<double>(v);
  }
  __device__ bool finite() const { return largest < 0x7f800000u; }
  /// All lanes' together, in all lanes.
  __device__ void combine(Measure what) {
    for (int other = 16; other > 0; other /= 2) {
      const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, largest, other);
      largest = theirs > largest ? theirs : largest;
      if (what == Measure::range) {
        const float lower = __shfl_xor_sync(kAllLanes, low, other);
        const float higher = __shfl_xor_sync(kAllLanes, high, other);
        low = lower < low ? lower : low;
        high = higher > high ? higher : high;
      }
      if (what == Measure::squares) squares += __shfl_xor_sync(kAllLanes, squares, other);
    }
    low += 0.0f;
    high += 0.0f;
  }
};

}  // namespace gossamer::compress::cuda
