#include <grid.cuh>

#include <algorithm>
#include <atomic>
#include <bit>
#include <stdexcept>
#include <string>

#include "gossamer/compress/device_vectors.h"

namespace gossamer::compress::cuda {
namespace {

/// Of one launch; what has more is combined in several.
constexpr std::size_t kTerms = 8;
struct Terms {
  Term term[kTerms];
  unsigned count;
};

__global__ void combine_kernel(float keep, float* dst, Terms terms, std::size_t n) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) {
    float sum = keep == 0.0f ? 0.0f : keep == 1.0f ? dst[i] : keep * dst[i];
    for (unsigned k = 0; k < terms.count; ++k) sum = sum + terms.term[k].factor * terms.term[k].x_dev[i];
    dst[i] = sum;
  }
}

__global__ void subtract_kernel(const float* a, const float* b, float* out, std::size_t n) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) out[i] = a[i] - b[i];
}

__global__ void scale_kernel(float factor, float* x, std::size_t n) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) x[i] = factor * x[i];
}

__global__ void flag_kernel(const float* x, std::size_t n, std::uint32_t* flag) {
  bool bad = false;
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid())
    bad |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu) >= 0x7f800000u;
  if (bad) atomicOr(flag, 1u);
}

struct Sums {
  double values[kThreads];
};

/// The sum of what the threads of the block bring, in the block's first.
__device__ double sum_of_block(double value) {
  Sums& sums = shared<Sums>();
  sums.values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) sums.values[threadIdx.x] += sums.values[threadIdx.x + width];
    __syncthreads();
  }
  return sums.values[0];
}

/// Block b brings partial b: of the entries that its threads stride over.
__global__ void squares_kernel(const float* x, std::size_t n, double* partials) {
  double sum = 0;
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid())
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double all = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = all;
}

/// One block.
__global__ void partials_kernel(const double* partials, std::size_t count, double* sum) {
  double mine = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) mine += partials[i];
  const double all = sum_of_block(mine);
  if (threadIdx.x == 0) *sum = all;
}

void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + doing + " failed: " + cudaGetErrorString(error));
}
void check_started(const char* doing) { check(cudaGetLastError(), doing); }
cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

std::atomic<std::uint64_t> copied{0};

}  // namespace

void combine(float keep, float* dst_dev, std::span<const Term> terms, std::size_t n, void* stream) {
  if (n == 0) return;
  std::size_t done = 0;
  do {
    Terms some{};
    some.count = static_cast<unsigned>(std::min(kTerms, terms.size() - done));
    std::copy_n(terms.begin() + static_cast<std::ptrdiff_t>(done), some.count, some.term);
    launch(combine_kernel, blocks_for(n, kThreads), kThreads, stream, done == 0 ? keep : 1.0f, dst_dev, some,
           n);
    done += some.count;
  } while (done < terms.size());
  check_started("combining vectors");
}

void subtract(const float* a_dev, const float* b_dev, float* out_dev, std::size_t n, void* stream) {
  if (n == 0) return;
  launch(subtract_kernel, blocks_for(n, kThreads), kThreads, stream, a_dev, b_dev, out_dev, n);
  check_started("subtracting vectors");
}

void scale(float factor, float* x_dev, std::size_t n, void* stream) {
  if (n == 0) return;
  launch(scale_kernel, blocks_for(n, kThreads), kThreads, stream, factor, x_dev, n);
  check_started("scaling a vector");
}

void flag_not_finite(const float* x_dev, std::size_t n, std::uint32_t* flag_dev, void* stream) {
  if (n == 0) return;
  launch(flag_kernel, blocks_for(n, kThreads), kThreads, stream, x_dev, n, flag_dev);
  check_started("looking for what is not finite");
}

void sum_of_squares(const float* x_dev, std::size_t n, double* partials_dev, double* sum_dev, void* stream) {
  const std::size_t blocks = std::min(blocks_for(n, kThreads), kSquarePartials);
  launch(squares_kernel, blocks, kThreads, stream, x_dev, n, partials_dev);
  launch(partials_kernel, 1, kThreads, stream, partials_dev, blocks, sum_dev);
  check_started("a norm");
}

int device_count() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "looking for devices");
  return devices;
}

void use_device(int index) {
  const int devices = device_count();
  if (index < 0 || index >= devices)
    throw std::runtime_error("found no device cuda:" + std::to_string(index) + ": there are " +
                             std::to_string(devices) + " on this machine, numbered from 0 on");
  check(cudaSetDevice(index), "choosing a device");
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "making a stream");
  stream_ = stream;
}
Stream::~Stream() { cudaStreamDestroy(stream_of(stream_)); }
void Stream::wait() const { check(cudaStreamSynchronize(stream_of(stream_)), "work on the device"); }

PinnedMemory::PinnedMemory(std::size_t bytes) : size_(bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 1)), "allocating pinned memory");
  data_ = static_cast<std::byte*>(memory);
}
PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

std::uint64_t bytes_over_bus() { return copied; }

void copy_to_device(void* to_dev, const void* from, std::size_t bytes, void* stream) {
  copied += bytes;
  if (bytes > 0)
    check(cudaMemcpyAsync(to_dev, from, bytes, cudaMemcpyHostToDevice, stream_of(stream)),
          "copying to the device");
}
void copy_to_host(void* to, const void* from_dev, std::size_t bytes, void* stream) {
  copied += bytes;
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from_dev, bytes, cudaMemcpyDeviceToHost, stream_of(stream)),
          "copying from the device");
}
void copy_on_device(void* to_dev, const void* from_dev, std::size_t bytes, void* stream) {
  if (bytes > 0)
    check(cudaMemcpyAsync(to_dev, from_dev, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)),
          "copying on the device");
}
void clear(void* memory_dev, std::size_t bytes, void* stream) {
  if (bytes > 0) check(cudaMemsetAsync(memory_dev, 0, bytes, stream_of(stream)), "clearing device memory");
}

}  // namespace gossamer::compress::cuda
