#pragma once
// Prefix sums over the whole device, in three kernels: of tiles, over tiles, within tiles.
#include "device.cuh"

namespace gossamer::compress::cuda {

inline constexpr unsigned kTile = 1024;  ///< elements of a tile, four for each thread
constexpr std::size_t tiles_of(std::size_t count) { return ceil_divide(count, kTile); }

template <class T>
struct ScanRoom {
  T of_thread[kThreads];
};

/// The sum of all threads' before this one; `all` becomes the block's. T adds by +=; T{} is nothing.
template <class T>
__device__ T scan_block(T mine, T& all) {
  auto& room = shared<ScanRoom<T>>().of_thread;
  const unsigned t = threadIdx.x;
  room[t] = mine;
  __syncthreads();
  for (unsigned width = 1; width < kThreads; width *= 2) {
    T sum = room[t];
    if (t >= width) sum += room[t - width];
    __syncthreads();
    room[t] = sum;
    __syncthreads();
  }
  all = room[kThreads - 1];
  const T before = t > 0 ? room[t - 1] : T{};
  __syncthreads();
  return before;
}

/// How many elements: `most`, or fewer where the device knows.
struct ScanCount {
  const unsigned long long* known;
  std::size_t most;
  __device__ std::size_t value() const { return known == nullptr ? most : least(*known, most); }
};

template <class T>
__global__ void sum_tiles_kernel(const T* data, ScanCount elements, T* tiles) {
  const std::size_t count = elements.value();
  for (std::size_t tile = blockIdx.x; tile < tiles_of(count); tile += gridDim.x) {
    T sum{}, all;
    for (std::size_t i = tile * kTile + threadIdx.x; i < least((tile + 1) * kTile, count); i += kThreads)
      sum += data[i];
    (void)scan_block(sum, all);
    if (threadIdx.x == 0) tiles[tile] = all;
  }
}

/// One block: tiles become the sums before them; tiles[tiles_of(most)] the sum of all.
template <class T>
__global__ void scan_tiles_kernel(T* tiles, ScanCount elements) {
  const std::size_t count = tiles_of(elements.value());
  T before{};
  for (std::size_t start = 0; start < count; start += kThreads) {
    const std::size_t i = start + threadIdx.x;
    T all, sum = before;
    sum += scan_block(i < count ? tiles[i] : T{}, all);
    if (i < count) tiles[i] = sum;
    before += all;
  }
  if (threadIdx.x == 0) tiles[tiles_of(elements.most)] = before;
}

template <class T>
__global__ void scan_within_kernel(T* data, ScanCount elements, const T* tiles) {
  const std::size_t count = elements.value();
  for (std::size_t tile = blockIdx.x; tile < tiles_of(count); tile += gridDim.x) {
    T before = tiles[tile];
    for (std::size_t start = tile * kTile; start < least((tile + 1) * kTile, count); start += kThreads) {
      const std::size_t i = start + threadIdx.x;
      T all, sum = before;
      sum += scan_block(i < count ? data[i] : T{}, all);
      if (i < count) data[i] = sum;
      before += all;
    }
  }
}

/// data[i] becomes the sum of those before it; tiles has tiles_of(count.most) + 1, the last of which becomes
/// the sum of all.
template <class T>
void scan(T* data, ScanCount count, T* tiles, void* stream) {
  const std::size_t blocks = blocks_for(tiles_of(count.most), 1);
  launch(sum_tiles_kernel<T>, blocks, kThreads, stream, data, count, tiles);
  launch(scan_tiles_kernel<T>, 1, kThreads, stream, tiles, count);
  launch(scan_within_kernel<T>, blocks, kThreads, stream, data, count, tiles);
}

}  // namespace gossamer::compress::cuda
