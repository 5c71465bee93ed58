#pragma once
// What a peer keeps in a device's memory.
#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "byte_pool.h"
#include "gossamer/compress/device_vectors.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::node {

/// Of a replica: gradients are computed on one, all else is done on the other.
struct DeviceStreams {
  compress::cuda::Stream compute, exchange;
};

/// Device memory that grows to what was asked for and is then used again; what stood in it is lost where it
/// grows.
class DeviceScratch {
 public:
  void* need(std::size_t bytes) {
    if (!memory_ || bytes > bytes_) {
      memory_.reset();
      memory_ = std::make_unique<compress::cuda::Buffer>(bytes);
      bytes_ = bytes;
    }
    return memory_->data();
  }
  template <class T>
  T* need_of(std::size_t count) {
    return static_cast<T*>(need(count * sizeof(T)));
  }

 private:
  std::unique_ptr<compress::cuda::Buffer> memory_;
  std::size_t bytes_ = 0;
};

/// Floats on a device.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count)
      : memory_(std::make_unique<compress::cuda::Buffer>(count * sizeof(float))), count_(count) {}
  float* data() const { return static_cast<float*>(memory_->data()); }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(float); }

 private:
  std::unique_ptr<compress::cuda::Buffer> memory_;
  std::size_t count_;
};

/// Pinned memory for payloads: what nobody reads any more is used again. Payloads may go on any thread, and
/// outlive it; memory that is not kept goes on the one that takes.
class PinnedPool {
 public:
  using Memory = compress::cuda::PinnedMemory;
  std::shared_ptr<Memory> take(std::size_t bytes) {
    constexpr std::size_t kLeast = 4096;  // a page
    const std::size_t size = size_class(std::max(bytes, kLeast));
    std::unique_ptr<Memory> memory;
    std::vector<std::unique_ptr<Memory>> gone;
    {
      const std::lock_guard lock(free_->mutex);
      if (auto kept = free_->blocks.take(size)) memory = std::move(*kept);
      gone.swap(free_->gone);
    }
    if (!memory) memory = std::make_unique<Memory>(size);
    return {memory.release(), [free = free_](Memory* used) { free->give_back(used); }};
  }

 private:
  static constexpr std::size_t kMostFree = std::size_t{256} << 20;
  struct Free {
    void give_back(Memory* used) noexcept try {
      std::unique_ptr<Memory> back(used);
      const std::size_t size = back->size();
      const std::lock_guard lock(mutex);
      for (auto& one : blocks.give_back(std::move(back), size)) gone.push_back(std::move(one));
    } catch (const std::bad_alloc&) {  // then it is not kept
    }
    std::mutex mutex;
    FreeBlocks<std::unique_ptr<Memory>> blocks{kMostFree};
    std::vector<std::unique_ptr<Memory>> gone;
  };
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace gossamer::node
