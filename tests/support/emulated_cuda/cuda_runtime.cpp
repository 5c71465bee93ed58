#include "cuda_runtime.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "streams.h"

namespace {

// What is wrong with the device, as the environment says: EMULATED_DEVICES (1), EMULATED_MEMORY (bytes),
// EMULATED_DRIVER=old; of its work, streams.cpp.

unsigned long long number_of(const char* variable, unsigned long long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Of allocations; a failed one leaves nothing.
std::atomic<unsigned long long>& memory_in_use() {
  static std::atomic<unsigned long long> bytes = 0;
  return bytes;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return gossamer::emulated::unless_failed(); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (std::getenv("EMULATED_DRIVER") != nullptr) return cudaErrorInsufficientDriver;
  *count = static_cast<int>(number_of("EMULATED_DEVICES", 1));
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess) return found;
  return device >= 0 && device < devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (gossamer::emulated::captures()) return cudaErrorStreamCaptureUnsupported;
  static const unsigned long long most = number_of("EMULATED_MEMORY", ~0ull);
  *memory = nullptr;
  if (memory_in_use() + bytes > most) return cudaErrorMemoryAllocation;
  *memory = std::malloc(bytes);
  // garbage, which nobody may read; of large workspaces, which are never touched, a part
  std::memset(*memory, 0xa5, std::min(bytes, std::size_t{1} << 20));
  memory_in_use() += malloc_usable_size(*memory);
  return cudaSuccess;
}

/// Waits for the device, as CUDA's does.
cudaError_t cudaFree(void* memory) {
  gossamer::emulated::drain_streams();
  memory_in_use() -= malloc_usable_size(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (gossamer::emulated::captures()) return cudaErrorStreamCaptureUnsupported;
  gossamer::emulated::drain_streams();
  if (bytes > 0) std::memcpy(to, from, bytes);
  return gossamer::emulated::unless_failed();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  gossamer::emulated::enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  gossamer::emulated::enqueue(stream, [=] {
    if (bytes > 0) std::memset(memory, value, bytes);
  });
  return cudaSuccess;
}
