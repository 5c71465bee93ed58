// Device twins of the CPU kernels. One thread per entry; a warp's ballot puts lane i into bit i of its word,
// the order in which the CPU packs. Compiled without fused multiply-add, as the CPU twins are.
#include <launch.cuh>

#include <cassert>
#include <stdexcept>
#include <string>

#include "gossamer/compress/kernels.h"

namespace gossamer::compress::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMaxBlocks = 65535;

void check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + doing + " failed: " + cudaGetErrorString(error));
}

/// Enough blocks for n threads; past kMaxBlocks each thread strides.
std::size_t blocks(std::size_t n) {
  const std::size_t needed = (n + kThreads - 1) / kThreads;
  return needed < kMaxBlocks ? needed : kMaxBlocks;
}

__device__ std::size_t first_entry() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t stride() { return std::size_t{gridDim.x} * blockDim.x; }

__global__ void axpy_kernel(float a, const float* x, float* y, std::size_t n) {
  for (std::size_t i = first_entry(); i < n; i += stride()) y[i] = y[i] + a * x[i];
}

__global__ void pack_signs_kernel(const float* x, std::uint32_t* words, std::size_t n) {
  // The loop runs to whole words, so that all 32 lanes of a warp reach the ballot together.
  const std::size_t end = (n + 31) / 32 * 32;
  for (std::size_t i = first_entry(); i < end; i += stride()) {
    const bool positive = i < n && x[i] >= 0.0f;
    const unsigned word = __ballot_sync(0xffffffffu, positive);
    if (i % 32 == 0) words[i / 32] = word;
  }
}

__global__ void add_signs_kernel(const std::uint32_t* words, float magnitude, float* y, std::size_t n) {
  for (std::size_t i = first_entry(); i < n; i += stride()) {
    y[i] += (words[i / 32] >> (i % 32) & 1u) != 0 ? magnitude : -magnitude;
  }
}

}  // namespace

bool available(std::string& why) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    why = std::string("no usable CUDA device: ") + cudaGetErrorString(error);
    return false;
  }
  if (devices == 0) {
    why = "no CUDA device on this machine";
    return false;
  }
  why.clear();
  return true;
}

void axpy(float a, const float* x_dev, float* y_dev, std::size_t n, void* stream) {
  if (n == 0) return;
  launch(axpy_kernel, blocks(n), kThreads, stream, a, x_dev, y_dev, n);
  check(cudaGetLastError(), "axpy");
}

void pack_signs(const float* x_dev, std::uint32_t* words_dev, std::size_t n, void* stream) {
  if (n == 0) return;
  launch(pack_signs_kernel, blocks(n), kThreads, stream, x_dev, words_dev, n);
  check(cudaGetLastError(), "pack_signs");
}

void add_signs(const std::uint32_t* words_dev, float magnitude, float* y_dev, std::size_t n, void* stream) {
  if (n == 0) return;
  launch(add_signs_kernel, blocks(n), kThreads, stream, words_dev, magnitude, y_dev, n);
  check(cudaGetLastError(), "add_signs");
}

Buffer::Buffer(std::size_t bytes) {
  check(cudaMalloc(&data_, bytes > 0 ? bytes : 1), "allocating device memory");
}
Buffer::~Buffer() { cudaFree(data_); }

void Buffer::from_host(const void* host, std::size_t bytes) {
  check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

void Buffer::to_host(void* host, std::size_t bytes) const {
  check(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost), "copying from the device");
}

}  // namespace gossamer::compress::cuda
