#pragma once
// As much of CUDA's runtime and of its device functions as Gossamer uses, on the emulated device.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "device_emulator.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (gossamer::emulated::place().thread)
#define blockIdx (gossamer::emulated::place().block)
#define blockDim (gossamer::emulated::place().threads)
#define gridDim (gossamer::emulated::place().blocks)

// Host side.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorStreamCaptureUnsupported = 900
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0 };
struct EmulatedStream;
struct EmulatedGraph;
using cudaStream_t = EmulatedStream*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
struct EmulatedEvent;
using cudaEvent_t = EmulatedEvent*;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaEventCreate(cudaEvent_t* event);
constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t before, cudaEvent_t after);

// Device side.
inline void __syncthreads() { gossamer::emulated::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  gossamer::emulated::exchange_in_warp("__syncwarp", mask, 0);
}
inline void __threadfence() {}
inline void __nanosleep(unsigned) { gossamer::emulated::pause(); }

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const std::uint64_t* all =
      gossamer::emulated::exchange_in_warp("__ballot_sync", mask, predicate != 0 ? 1 : 0);
  unsigned word = 0;
  for (unsigned lane = 0; lane < 32; ++lane) word |= static_cast<unsigned>(all[lane]) << lane;
  return word;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == ~0u ? 1 : 0; }

namespace gossamer::emulated {
template <class T>
T from_lane(const char* kind, unsigned mask, T value, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const std::uint64_t* all = exchange_in_warp(kind, mask, bits);
  std::memcpy(&value, &all[lane], sizeof value);
  return value;
}
}  // namespace gossamer::emulated

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned self = threadIdx.x % 32, w = static_cast<unsigned>(width);
  const unsigned source = self / w * w + static_cast<unsigned>(lane) % w;
  return gossamer::emulated::from_lane("__shfl_sync", mask, value, source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, int = 32) {
  return gossamer::emulated::from_lane("__shfl_xor_sync", mask, value,
                                       (threadIdx.x % 32) ^ static_cast<unsigned>(other));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = threadIdx.x % 32, w = static_cast<unsigned>(width);
  return gossamer::emulated::from_lane("__shfl_up_sync", mask, value,
                                       self % w >= delta ? self - delta : self);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = threadIdx.x % 32, w = static_cast<unsigned>(width);
  return gossamer::emulated::from_lane("__shfl_down_sync", mask, value,
                                       self % w + delta < w ? self + delta : self);
}

inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return v == 0 ? 0 : std::countr_zero(static_cast<unsigned>(v)) + 1; }
inline int __ffsll(long long v) {
  return v == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(v)) + 1;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31u));
}
template <class T>
T __ldg(const T* at) {
  return *at;
}

template <class T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <class T>
T atomicOr(T* at, T value) {
  const T old = *at;
  *at = old | value;
  return old;
}
template <class T>
T atomicMin(T* at, T value) {
  const T old = *at;
  *at = value < old ? value : old;
  return old;
}
template <class T>
T atomicMax(T* at, T value) {
  const T old = *at;
  *at = value > old ? value : old;
  return old;
}
template <class T>
T atomicExch(T* at, T value) {
  const T old = *at;
  *at = value;
  return old;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
