#pragma once
// The inner loops, on the CPU (Highway, dispatched at run time) and on a CUDA device. Each CUDA kernel is
// tested against its CPU twin, to the bit.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gossamer::compress {

/// y += a·x, no fused multiply-add. Sizes equal.
void axpy(float a, std::span<const float> x, std::span<float> y);
/// Bit i%32 of words[i/32] is 1 where x[i] ≥ 0 or −0 (sign(0) = +1); unused high bits are 0. words ≥
/// ceil(n/32).
void pack_signs(std::span<const float> x, std::span<std::uint32_t> words);
/// y[i] += bit i ? magnitude : −magnitude.
void add_signs(std::span<const std::uint32_t> words, float magnitude, std::span<float> y);
/// Σ|x| and Σx², in 16 lanes (index mod 16) over blocks of 4096, lanes then blocks combined pairwise.
struct Norms {
  float l1, l2_squared;
};
Norms norms(std::span<const float> x);

/// The same on a CUDA device. Pointers named _dev are device memory; every call is asynchronous on `stream`
/// (a cudaStream_t, 0 = default). In a build without CUDA each throws std::runtime_error saying so.
namespace cuda {
/// True where a usable device is there; otherwise why holds the reason.
bool available(std::string& why);
void axpy(float a, const float* x_dev, float* y_dev, std::size_t n, void* stream);
void pack_signs(const float* x_dev, std::uint32_t* words_dev, std::size_t n, void* stream);
void add_signs(const std::uint32_t* words_dev, float magnitude, float* y_dev, std::size_t n, void* stream);
/// Device memory for tests and tools; frees itself.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }
  void from_host(const void* host, std::size_t bytes);
  void to_host(void* host, std::size_t bytes) const;  ///< waits for the default stream

 private:
  void* data_ = nullptr;
};
}  // namespace cuda

}  // namespace gossamer::compress
