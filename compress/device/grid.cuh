#pragma once
// How the threads of a kernel share its work, warps of 32 and blocks of kThreads; knows nothing of codecs.
#include <launch.cuh>

#include <cstddef>

namespace gossamer::compress::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreads = 256;
inline constexpr std::size_t kMaxBlocks = std::size_t{1} << 16;

/// Blocks that give each of `work` pieces a part of a block, `per_block` pieces each; past kMaxBlocks they
/// stride.
constexpr std::size_t blocks_for(std::size_t work, std::size_t per_block) {
  const std::size_t needed = work / per_block + (work % per_block != 0 ? 1 : 0);
  return needed < kMaxBlocks ? (needed > 0 ? needed : 1) : kMaxBlocks;
}

__device__ inline unsigned lane_of_warp() { return threadIdx.x % kWarp; }
/// Among all warps of the grid.
__device__ inline std::size_t warp_of_grid() {
  return (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}
__device__ inline std::size_t warps_in_grid() { return std::size_t{gridDim.x} * blockDim.x / kWarp; }
__device__ inline std::size_t thread_of_grid() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t threads_in_grid() { return std::size_t{gridDim.x} * blockDim.x; }

constexpr std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
constexpr std::size_t ceil_divide(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace gossamer::compress::cuda
