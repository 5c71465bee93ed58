#pragma once
// Chunks of 512 entries that half a warp holds in registers, 16 entries to a row, and their signs.
#include "sums.cuh"

namespace gossamer::compress::cuda {

inline constexpr unsigned kRows = 32;                 ///< of 16 entries
inline constexpr std::size_t kChunk = kRows * kHalf;  ///< entries in registers
inline constexpr std::size_t kChunksPerBlock = 4096 / kChunk;

/// One bucket, or the part of a vector that half a warp works on; size 0: none, the lanes only keep company.
struct Part {
  std::size_t start, size;
};

/// Whether a block of the sums ends with this chunk of a bucket of so many.
constexpr bool ends_block(std::size_t chunk, std::size_t chunks) {
  return (chunk + 1) % kChunksPerBlock == 0 || chunk + 1 == chunks;
}

/// The lane's entries of one chunk of a part, 0 past its end.
__device__ inline void load_chunk(const Input& input, Part part, std::size_t chunk, float* v) {
  const std::size_t first = chunk * kChunk + threadIdx.x % kHalf;
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const std::size_t i = first + r * kHalf;
    v[r] = i < part.size ? input.value(part.start + i) : 0.0f;
  }
}

/// Signs of one chunk, and whether its entries are finite.
__device__ inline void write_chunk(Part part, std::size_t chunk, const float* v, std::byte* signs,
                                   DeviceResult* result) {
  const unsigned lane = threadIdx.x % kHalf, shift = lane_of_warp() / kHalf * kHalf;
  const std::size_t first = chunk * kChunk + lane;
  std::uint32_t mine = 0;
#pragma unroll
  for (unsigned r = 0; r < kRows; r += 2) {
    const unsigned low = __ballot_sync(kAllLanes, first + r * kHalf < part.size && v[r] >= 0.0f);
    const unsigned high = __ballot_sync(kAllLanes, first + (r + 1) * kHalf < part.size && v[r + 1] >= 0.0f);
    const std::uint32_t word = (low >> shift & 0xffffu) | (high >> shift & 0xffffu) << 16;
    if (lane == r / 2) mine = word;
    if (!is_finite(v[r])) refuse_entry(result, part.start + first + r * kHalf, DeviceError::not_finite);
    if (!is_finite(v[r + 1]))
      refuse_entry(result, part.start + first + (r + 1) * kHalf, DeviceError::not_finite);
  }
  const std::size_t byte = chunk * kChunk / 8 + 4 * std::size_t{lane}, bytes = ceil_divide(part.size, 8);
  if (byte < bytes) put_bytes(signs + part.start / 8 + byte, mine, least(4, bytes - byte));
}

__device__ inline void keep_chunk(const Input& input, Part part, std::size_t chunk, const float* v,
                                  SignPair values) {
  const std::size_t first = chunk * kChunk + threadIdx.x % kHalf;
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const std::size_t i = first + r * kHalf;
    if (i < part.size) input.keep(part.start + i, v[r], v[r] >= 0.0f ? values.plus : values.minus);
  }
}

}  // namespace gossamer::compress::cuda
