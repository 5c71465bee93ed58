#include "streams.h"

#include <algorithm>
#include <atomic>

#include "gossamer/optim/device.h"
#include "memory.h"

namespace gossamer::optim::cuda {
namespace {

std::atomic<std::uint64_t> copied{0};

}  // namespace

Stream::Stream() { require(cudaStreamCreate(&stream_), "making a stream"); }

Event::Event() { require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
void Event::record(cudaStream_t stream) { require(cudaEventRecord(event_, stream), "recording an event"); }
void Event::hold_back(cudaStream_t stream) const {
  require(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
}
void Event::wait() const { require(cudaEventSynchronize(event_), "work on the device"); }

PinnedMemory::PinnedMemory(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 1)), "allocating pinned memory");
  data_ = static_cast<std::byte*>(memory);
}

void copy_to_device(void* to_dev, const void* from, std::size_t bytes, cudaStream_t stream) {
  copied += bytes;
  if (bytes > 0)
    require(cudaMemcpyAsync(to_dev, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
}
void copy_to_host(void* to, const void* from_dev, std::size_t bytes, cudaStream_t stream) {
  copied += bytes;
  if (bytes > 0)
    require(cudaMemcpyAsync(to, from_dev, bytes, cudaMemcpyDeviceToHost, stream), "copying from the device");
}

std::uint64_t bytes_over_bus() { return copied; }

}  // namespace gossamer::optim::cuda
