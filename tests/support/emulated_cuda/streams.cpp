#include "streams.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace {

/// Times that an event was recorded, and that of which was reached last.
struct EventState {
  std::uint64_t recorded = 0, reached = 0;
  std::chrono::steady_clock::time_point at;
};

/// A piece of a stream's work, which may have to wait for an event.
struct Piece {
  std::function<void()> work;
  std::shared_ptr<const EventState> after{};
  std::uint64_t time = 0;  ///< of after

  bool may_run() const { return !after || after->reached >= time; }
};

}  // namespace

struct EmulatedGraph {
  std::vector<std::function<void()>> work;
};
struct EmulatedStream {
  EmulatedGraph* captured = nullptr;
  std::deque<Piece> pieces;
};
struct EmulatedEvent {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

namespace gossamer::emulated {
namespace {

/// Work that runs after so many pieces fails, as does all that comes then (EMULATED_FAILS_AFTER).
std::uint64_t pieces_that_work() {
  const char* text = std::getenv("EMULATED_FAILS_AFTER");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : ~std::uint64_t{0};
}

/// All streams, of all threads.
class Streams {
 public:
  std::recursive_mutex mutex;
  std::atomic<bool> failed = false;
  int captured = 0;

  void seed(std::uint64_t seed) {
    random_.seed(seed);
    eager_ = random_() % 3;
    calm_ = std::uint64_t{1} << random_() % 10;
  }
  void add(EmulatedStream* stream) { all_.push_back(stream); }
  void remove(EmulatedStream* stream) {
    wait_for(*stream);
    std::erase(all_, stream);
  }

  void put(EmulatedStream& stream, Piece piece) {
    stream.pieces.push_back(std::move(piece));
    while (random_() % 4 < eager_ && step()) {
    }
  }
  void wait_for(const EmulatedStream& stream) {
    while (!stream.pieces.empty()) must_step();
  }
  void wait_for(const EventState& event) {
    for (const std::uint64_t time = event.recorded; event.reached < time;) must_step();
  }
  void drain() {
    while (std::ranges::any_of(all_, [](const auto* s) { return !s->pieces.empty(); })) must_step();
  }
  void run(const std::function<void()>& work) {
    if (done_ < works_)
      ++done_, work();
    else
      failed = true;
  }

 private:
  /// One piece of the first stream that may go on; false where none may.
  bool step() {
    if (random_() % calm_ == 0) std::ranges::shuffle(all_, random_);
    const auto next = std::ranges::find_if(
        all_, [](const auto* s) { return !s->pieces.empty() && s->pieces.front().may_run(); });
    if (next == all_.end()) return false;
    auto& pieces = (*next)->pieces;
    const Piece piece = std::move(pieces.front());
    pieces.pop_front();
    if (piece.work) piece.work();
    return true;
  }
  void must_step() {
    if (step()) return;
    std::fprintf(stderr, "emulated CUDA device: streams wait for events that never come\n");
    std::abort();
  }

  std::vector<EmulatedStream*> all_;  ///< who stands before others goes before them
  std::mt19937_64 random_;
  std::uint64_t eager_ = 2;  ///< of 4: whether more is done when work is submitted; 0: once it is waited for
  std::uint64_t calm_ = 1;   ///< the order of streams is drawn once in so many pieces
  const std::uint64_t works_ = pieces_that_work();
  std::uint64_t done_ = 0;
};

Streams& streams() {
  static Streams& one = *new Streams;  // streams may go after it would
  return one;
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

void seed_streams(std::uint64_t seed) {
  const Lock lock(streams().mutex);
  streams().seed(seed);
}
void drain_streams() {
  const Lock lock(streams().mutex);
  streams().drain();
}
bool captures() { return streams().captured > 0; }
bool has_failed() { return streams().failed; }
cudaError_t unless_failed() { return has_failed() ? cudaErrorIllegalAddress : cudaSuccess; }
cudaError_t unless_captured() { return captures() ? cudaErrorStreamCaptureUnsupported : unless_failed(); }

/// The stream 0 waits for all others, and they for it.
void enqueue(void* stream, std::function<void()> work) {
  const Lock lock(streams().mutex);
  auto* const s = static_cast<EmulatedStream*>(stream);
  if (s != nullptr && s->captured != nullptr) return s->captured->work.push_back(std::move(work));
  const auto run = [work = std::move(work)] { streams().run(work); };
  if (s != nullptr) return streams().put(*s, {run});
  streams().drain();
  run();
}

}  // namespace gossamer::emulated

using gossamer::emulated::Lock;
using gossamer::emulated::streams;
using gossamer::emulated::unless_captured;
using gossamer::emulated::unless_failed;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const Lock lock(streams().mutex);
  *stream = new EmulatedStream;
  streams().add(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(streams().mutex);
  streams().remove(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (gossamer::emulated::captures()) return cudaErrorStreamCaptureUnsupported;
  const Lock lock(streams().mutex);
  stream == nullptr ? streams().drain() : streams().wait_for(*stream);
  return unless_failed();
}

cudaError_t cudaDeviceSynchronize() { return cudaStreamSynchronize(nullptr); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(streams().mutex);
  if (stream == nullptr || stream->captured != nullptr) return cudaErrorInvalidValue;
  streams().put(*stream, {{}, event->state, event->state->recorded});
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Lock lock(streams().mutex);
  if (stream == nullptr || stream->captured != nullptr) return cudaErrorInvalidValue;
  stream->captured = new EmulatedGraph;
  ++streams().captured;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(streams().mutex);
  if (stream == nullptr || stream->captured == nullptr) return cudaErrorInvalidValue;
  *graph = stream->captured;
  stream->captured = nullptr;
  --streams().captured;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const auto& work : executable->work) gossamer::emulated::enqueue(stream, work);
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

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EmulatedEvent;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(streams().mutex);
  if (stream != nullptr && stream->captured != nullptr) return cudaErrorInvalidValue;
  const auto reach = [state = event->state, time = ++event->state->recorded] {
    state->reached = std::max(state->reached, time);
    state->at = std::chrono::steady_clock::now();
  };
  if (stream != nullptr) {
    streams().put(*stream, {reach});
  } else {
    streams().drain();
    reach();
  }
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (gossamer::emulated::captures()) return cudaErrorStreamCaptureUnsupported;
  const Lock lock(streams().mutex);
  streams().wait_for(*event->state);
  return unless_failed();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(streams().mutex);
  if (unless_failed() != cudaSuccess) return unless_failed();
  return event->state->reached < event->state->recorded ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t before, cudaEvent_t after) {
  *ms = std::chrono::duration<float, std::milli>(after->state->at - before->state->at).count();
  return cudaSuccess;
}
