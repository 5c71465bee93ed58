#pragma once
// A device's streams, what orders their work, and copies over the bus, which are counted.
#include <cuda_runtime.h>

#include <cstddef>

namespace gossamer::optim::cuda {

/// Work that is done in the order in which it was submitted, beside other streams.
class Stream {
 public:
  Stream();
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in the work of streams.
class Event {
 public:
  Event();
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// It is reached when all is done that was submitted to the stream so far.
  void record(cudaStream_t stream);
  /// What is submitted to the stream from now on begins when it is reached; at once where it was not
  /// recorded.
  void hold_back(cudaStream_t stream) const;
  /// Until it is reached. Throws std::runtime_error where the device's work has failed.
  void wait() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Host memory that a device copies from and to by itself.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// In the stream's order; host memory stays as it is until that copy has been waited for.
void copy_to_device(void* to_dev, const void* from, std::size_t bytes, cudaStream_t stream);
void copy_to_host(void* to, const void* from_dev, std::size_t bytes, cudaStream_t stream);

}  // namespace gossamer::optim::cuda
