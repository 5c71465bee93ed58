#include "cuda_runtime.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

// A stream does its work at once, but for one that is being captured: its work becomes a graph.
struct EmulatedGraph {
  std::vector<std::function<void()>> work;
};

struct EmulatedStream {
  EmulatedGraph* captured = nullptr;
};

struct EmulatedEvent {
  std::chrono::steady_clock::time_point at;
};

namespace {

// What is wrong with the device, as the environment says: EMULATED_DEVICES (1), EMULATED_MEMORY (bytes),
// EMULATED_DRIVER=old, EMULATED_FAILS_AFTER (pieces of work).

unsigned long long number_of(const char* variable, unsigned long long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Of allocations; a failed one leaves nothing.
std::atomic<unsigned long long>& memory_in_use() {
  static std::atomic<unsigned long long> bytes = 0;
  return bytes;
}

/// Work that runs after so many pieces fails, as does all that comes then.
bool works() {
  static const unsigned long long most = number_of("EMULATED_FAILS_AFTER", ~0ull);
  static std::atomic<unsigned long long> done = 0;
  return done.load() < most && done.fetch_add(1) < most;
}
std::atomic<bool>& failed() {
  static std::atomic<bool> has = false;
  return has;
}
cudaError_t unless_failed() { return failed() ? cudaErrorIllegalAddress : cudaSuccess; }

/// Whether any stream is being captured: then nothing may allocate or wait.
int& captures() {
  static int count = 0;
  return count;
}

cudaError_t unless_captured() { return captures() > 0 ? cudaErrorStreamCaptureUnsupported : unless_failed(); }

}  // namespace

void gossamer::emulated::enqueue(void* stream, std::function<void()> work) {
  auto* const s = static_cast<EmulatedStream*>(stream);
  if (s != nullptr && s->captured != nullptr) {
    s->captured->work.push_back(std::move(work));
  } else if (works()) {
    work();
  } else {
    failed() = true;
  }
}

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
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return unless_failed(); }

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
  if (captures() > 0) return cudaErrorStreamCaptureUnsupported;
  static const unsigned long long most = number_of("EMULATED_MEMORY", ~0ull);
  *memory = nullptr;
  if (memory_in_use() + bytes > most) return cudaErrorMemoryAllocation;
  *memory = std::malloc(bytes);
  // garbage, which nobody may read; of large workspaces, which are never touched, a part
  std::memset(*memory, 0xa5, std::min(bytes, std::size_t{1} << 20));
  memory_in_use() += malloc_usable_size(*memory);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  memory_in_use() -= malloc_usable_size(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (captures() > 0) return cudaErrorStreamCaptureUnsupported;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
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

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new EmulatedStream;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return unless_captured(); }
cudaError_t cudaDeviceSynchronize() { return unless_captured(); }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->captured != nullptr) return cudaErrorInvalidValue;
  stream->captured = new EmulatedGraph;
  ++captures();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (stream == nullptr || stream->captured == nullptr) return cudaErrorInvalidValue;
  *graph = stream->captured;
  stream->captured = nullptr;
  --captures();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (const auto& work : executable->work) work();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new EmulatedEvent;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  gossamer::emulated::enqueue(stream, [=] { event->at = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t) { return unless_captured(); }

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t before, cudaEvent_t after) {
  *ms = std::chrono::duration<float, std::milli>(after->at - before->at).count();
  return cudaSuccess;
}
