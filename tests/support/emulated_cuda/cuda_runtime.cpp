#include "cuda_runtime.h"

#include <chrono>
#include <cstdlib>
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

/// Whether any stream is being captured: then nothing may allocate or wait.
int& captures() {
  static int count = 0;
  return count;
}

cudaError_t unless_captured() { return captures() > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess; }

}  // namespace

void gossamer::emulated::enqueue(void* stream, std::function<void()> work) {
  auto* const s = static_cast<EmulatedStream*>(stream);
  if (s != nullptr && s->captured != nullptr) {
    s->captured->work.push_back(std::move(work));
  } else {
    work();
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (captures() > 0) return cudaErrorStreamCaptureUnsupported;
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xa5, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
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
