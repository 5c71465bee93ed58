#pragma once
// What compress/device/launch.cuh is on a device, on the emulated one.
#include <cstddef>

#include "cuda_runtime.h"

namespace gossamer::compress::cuda {

template <class... P, class... A>
void launch(void (*kernel)(P...), std::size_t blocks, unsigned threads, void* stream, A... args) {
  emulated::enqueue(stream,
                    [=] { emulated::run_grid(blocks, threads, [=] { kernel(static_cast<P>(args)...); }); });
}

template <class T>
T& shared() {
  static const char id = 0;
  return *static_cast<T*>(emulated::shared(&id, sizeof(T)));
}

}  // namespace gossamer::compress::cuda
