#pragma once
// Device memory with an owner, and what CUDA's calls say when they fail.
#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <utility>

#include "cublas.h"

namespace gossamer::optim::cuda {

/// Throws std::runtime_error: "CUDA: <doing> failed: …".
void require(cudaError_t status, const char* doing);
void require(cublasStatus_t status, const char* doing);
/// Of the kernels that were started last.
void require_started(const char* doing);

/// Uninitialised; grows and never shrinks.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t count) { (void)need(count); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_), std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  /// Room for so many; what stood in it is lost where it has to grow.
  T* need(std::size_t count) {
    if (count <= count_) return data_;
    cudaFree(std::exchange(data_, nullptr));
    count_ = 0;
    void* memory = nullptr;
    require(cudaMalloc(&memory, count * sizeof(T)), "allocating device memory");
    data_ = static_cast<T*>(memory), count_ = count;
    return data_;
  }
  T* data() const { return data_; }
  std::size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace gossamer::optim::cuda
