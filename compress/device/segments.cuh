#pragma once
// The trees of onebit_scaled (see segments.h), a whole warp on one segment. Both halves of a warp work
// out the same sums, so that all lanes decide alike.
#include <cmath>

#include "segments.h"
#include "sign_chunks.cuh"

namespace gossamer::compress::cuda {

/// Segments still to be done, the next on top. Those of a bucket of 2²⁰ entries are no deeper.
class SegmentStack {
 public:
  __device__ explicit SegmentStack(Part bucket) { push(bucket); }
  __device__ bool empty() const { return depth_ == 0; }
  __device__ Part pop() { return parts_[--depth_]; }
  __device__ void split(Part part) {
    const std::size_t first = first_half(part.size);
    push({part.start + first, part.size - first});
    push({part.start, first});
  }

 private:
  __device__ void push(Part part) { parts_[depth_++] = part; }
  Part parts_[24];
  unsigned depth_ = 0;
};

struct SegmentSums {
  double l1, l2_squared;
  bool rough;  ///< summed in float
};

/// From the float sums, or where those overflow or vanish entry by entry.
__device__ inline SegmentSums segment_sums(const Input& input, Part part, float l1, float l2_squared) {
  if (l2_squared > 1e-25f && l2_squared < 1e35f)
    return {static_cast<double>(l1), static_cast<double>(l2_squared), true};
  if (l1 == 0) return {0, 0, true};
  SegmentSums sums{0, 0, false};
  for (std::size_t i = 0; i < part.size; ++i) {
    const double a = static_cast<double>(absolute(input.value(part.start + i)));
    sums.l1 += a;
    sums.l2_squared += a * a;
  }
  return sums;
}

/// What the bound decides.
struct ScaledRule {
  double lambda;  ///< 0: that of least error
  double bound_squared;
  bool constant;  ///< the bound is not a share of the norm
  double bucket_size = 0;

  __device__ ScaledRule of_bucket(std::size_t size) const {
    return {lambda, bound_squared, constant, static_cast<double>(size)};
  }
  /// The most that the error² of a part of the bucket may be under this bound squared.
  __device__ double limit(double squared, double l2_squared, Part part) const {
    return squared * (constant ? static_cast<double>(part.size) / bucket_size : l2_squared);
  }

  /// Whether ‖scale·sign(v) − v‖₂ is within the bound in the numbers that the decoder makes.
  __device__ bool holds(const Input& input, Part part, const SegmentSums& sums, float scale) const {
    constexpr double kRough = 1e-3;
    if (!(scale > 0)) return false;
    const double s = static_cast<double>(scale);
    const double error = sums.l2_squared - 2 * s * sums.l1 + static_cast<double>(part.size) * s * s;
    const double most = limit(bound_squared, sums.l2_squared, part), unsure = kRough * sums.l2_squared;
    if (sums.rough && error <= most - unsure) return true;
    if (sums.rough && error >= most + unsure) return false;
    double exact_error = 0, exact_norm = 0;
    for (std::size_t i = 0; i < part.size; ++i) {
      const double a = static_cast<double>(absolute(input.value(part.start + i)));
      exact_error += (a - s) * (a - s);
      exact_norm += a * a;
    }
    return exact_error <= limit(bound_squared * (1 - 1e-12), exact_norm, part);
  }

  /// scaled, mean or zero with its scale; split where none of these holds, whatever the size.
  __device__ Mode decide(const Input& input, Part part, const SegmentSums& sums, float& scale) const {
    scale = 0;
    if (sums.l1 == 0) return Mode::zero;
    const auto d = static_cast<double>(part.size);
    if (lambda > 0) {
      scale = static_cast<float>(lambda * std::sqrt(sums.l2_squared / d));
      if (holds(input, part, sums, scale)) return Mode::scaled;
    }
    scale = static_cast<float>(sums.l1 / d);
    if (!holds(input, part, sums, scale)) return Mode::split;
    return lambda > 0 ? Mode::mean : Mode::scaled;
  }
};

/// Where the modes and the body of a bucket start, or how long they are.
struct Extent {
  unsigned long long bits, bytes;
  __device__ Extent& operator+=(const Extent& other) {
    bits += other.bits;
    bytes += other.bytes;
    return *this;
  }
};

/// Float sums of a segment, in all lanes.
__device__ inline SegmentSums measure_segment(const Input& input, Part part) {
  PairwiseSum l1, l2;
  for (std::size_t block = 0; block < part.size; block += 4096) {
    float lane_l1 = 0, lane_l2 = 0;
    for (std::size_t i = block + threadIdx.x % kHalf; i < least(block + 4096, part.size); i += kHalf) {
      const float v = input.value(part.start + i);
      lane_l1 += absolute(v);
      lane_l2 += v * v;
    }
    l1.add(combine_lanes(lane_l1));
    l2.add(combine_lanes(lane_l2));
  }
  return segment_sums(input, part, l1.total(), l2.total());
}

/// Entries of a small segment that are not 0, one bit each.
__device__ inline std::uint32_t present_in(const Input& input, Part part) {
  const unsigned lane = lane_of_warp();
  return __ballot_sync(kAllLanes, lane < part.size && input.value(part.start + lane) != 0);
}
/// sparse or dense, whichever is smaller.
__device__ inline Mode values_mode(std::uint32_t present, std::size_t size) {
  return 2 + 4 * static_cast<std::size_t>(__popc(present)) >= 4 * size ? Mode::dense : Mode::sparse;
}
/// Bytes of a leaf.
__device__ inline std::size_t leaf_bytes(Mode mode, std::uint32_t present, std::size_t size) {
  switch (mode) {
    case Mode::scaled:
    case Mode::mean:
      return 4 + ceil_divide(size, 8);
    case Mode::dense:
      return 4 * size;
    case Mode::sparse:
      return 2 + 4 * static_cast<std::size_t>(__popc(present));
    case Mode::split:
    case Mode::zero:
      break;
  }
  return 0;
}

}  // namespace gossamer::compress::cuda
