#pragma once
// The two things that CUDA says with syntax of its own, as functions: starting a kernel, and memory that a
// block shares. Kernels are tested without a device by another file of this name that comes first on the
// include path.
#include <cuda_runtime.h>

#include <cstddef>

namespace gossamer::compress::cuda {

/// Starts kernel on blocks × threads, asynchronous on stream (a cudaStream_t).
template <class... P, class... A>
void launch(void (*kernel)(P...), std::size_t blocks, unsigned threads, void* stream, A... args) {
  kernel<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<P>(args)...);
}

/// The one T that the threads of a block share; its value is nothing at first. Trivial types only, one of
/// each.
template <class T>
__device__ T& shared() {
  __shared__ T one;
  return one;
}

}  // namespace gossamer::compress::cuda
