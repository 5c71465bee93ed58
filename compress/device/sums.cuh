#pragma once
// Sums in the order that the CPU keeps: 16 lanes of one bucket are half a warp.
#include "device.cuh"

namespace gossamer::compress::cuda {

inline constexpr unsigned kHalf = 16;

/// Lane j gets j + 8, then j + 4, + 2, + 1; every lane of the half holds lane 0's sum, for addition commutes.
__device__ inline float combine_lanes(float sum) {
  for (int other = 8; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
  return sum;
}

/// Pairwise sum of up to 2^kDepth block sums as they come: neighbours first, then pairs of pairs.
class PairwiseSum {
 public:
  __device__ void add(float sum) {
    // Like carrying in binary: block k completes as many pairs as k has trailing ones.
    for (std::size_t carry = count_++; (carry & 1u) != 0; carry >>= 1) sum = level_[--depth_] + sum;
    level_[depth_++] = sum;
  }
  __device__ float total() const {
    if (depth_ == 0) return 0;
    float sum = level_[depth_ - 1];
    for (unsigned i = depth_ - 1; i-- > 0;) sum = level_[i] + sum;
    return sum;
  }

 private:
  static constexpr unsigned kDepth = 12;
  float level_[kDepth];
  unsigned depth_ = 0;
  std::size_t count_ = 0;
};

}  // namespace gossamer::compress::cuda
