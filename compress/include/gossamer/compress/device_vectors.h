#pragma once
// What happens to vectors in device memory beside their coding, and the memory and streams for it. As in
// device.h: pointers named _dev are device memory, calls are asynchronous on their stream (a cudaStream_t)
// and wait for nothing. In a build without CUDA what makes something throws std::runtime_error saying so.
#include <cstddef>
#include <cstdint>
#include <span>

namespace gossamer::compress::cuda {

struct Term {
  float factor;
  const float* x_dev;
};
/// dst ← keep·dst + Σ factor·x, terms in order, each product and sum rounded by itself as axpy does it; keep
/// = 0 overwrites. No x may be dst.
void combine(float keep, float* dst_dev, std::span<const Term> terms, std::size_t n, void* stream);
/// out ← a − b; out may be either.
void subtract(const float* a_dev, const float* b_dev, float* out_dev, std::size_t n, void* stream);
/// x ← factor·x
void scale(float factor, float* x_dev, std::size_t n, void* stream);
/// flag ← 1 where an entry is NaN or Inf; else it stays.
void flag_not_finite(const float* x_dev, std::size_t n, std::uint32_t* flag_dev, void* stream);

constexpr std::size_t kSquarePartials = 1024;
/// sum ← Σ x² in double, added up in an order that is always the same. partials_dev: kSquarePartials numbers.
void sum_of_squares(const float* x_dev, std::size_t n, double* partials_dev, double* sum_dev, void* stream);

/// On this machine. Throws std::runtime_error where CUDA cannot tell, saying why.
int device_count();
/// Makes the device the one that the calling thread's next calls are for. Throws std::runtime_error where
/// there is none of that number, saying how many there are.
void use_device(int index);

/// Of the device that is in use; calls of it run in order. One owner.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }
  /// Until all that was submitted is done. Throws std::runtime_error for what failed on the device meanwhile.
  void wait() const;

 private:
  void* stream_ = nullptr;
};

/// Host memory that a device copies from and to by itself.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// Host memory stays as it is until the stream has been waited for.
void copy_to_device(void* to_dev, const void* from, std::size_t bytes, void* stream);
void copy_to_host(void* to, const void* from_dev, std::size_t bytes, void* stream);
/// Bytes that these two copied since the process began.
std::uint64_t bytes_over_bus();
void copy_on_device(void* to_dev, const void* from_dev, std::size_t bytes, void* stream);
/// Every byte ← 0.
void clear(void* memory_dev, std::size_t bytes, void* stream);

}  // namespace gossamer::compress::cuda
