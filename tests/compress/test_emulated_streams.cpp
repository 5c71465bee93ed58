// The emulated device's own streams and events.
#include <cuda_runtime.h>

#include <set>
#include <string>

#include "device_emulator.h"
#include "gossamer_test/catch.h"

using gossamer::emulated::enqueue;
using gossamer::emulated::set_seed;

namespace {

struct Streams {
  Streams() {
    REQUIRE(cudaStreamCreate(&a) == cudaSuccess);
    REQUIRE(cudaStreamCreate(&b) == cudaSuccess);
    REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  }
  ~Streams() {
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
  void say(cudaStream_t stream, char what) {
    enqueue(stream, [this, what] { said += what; });
  }
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  std::string said;
};

/// What is said in the order of each of many seeds.
template <class Submit>
std::set<std::string> orders(const Submit& submit) {
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    set_seed(seed);
    Streams streams;
    submit(streams);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    all.insert(streams.said);
  }
  return all;
}

}  // namespace

TEST_CASE("an emulated stream does its work in order, and two in any") {
  const auto all = orders([](Streams& s) {
    for (const char what : {'1', '2'}) s.say(s.a, what);
    for (const char what : {'x', 'y'}) s.say(s.b, what);
  });
  CHECK(all == std::set<std::string>{"12xy", "1x2y", "1xy2", "x12y", "x1y2", "xy12"});
}

TEST_CASE("an emulated event holds a stream back until it is reached") {
  const auto all = orders([](Streams& s) {
    s.say(s.a, '1');
    cudaEventRecord(s.event, s.a);
    s.say(s.a, '2');
    cudaStreamWaitEvent(s.b, s.event);
    s.say(s.b, 'x');
  });
  CHECK(all == std::set<std::string>{"12x", "1x2"});
  const auto unrecorded = orders([](Streams& s) {
    cudaStreamWaitEvent(s.b, s.event);
    s.say(s.b, 'x');
  });
  CHECK(unrecorded == std::set<std::string>{"x"});
}

TEST_CASE("an emulated event is reached, and waited for, as it was recorded last") {
  set_seed(3);
  Streams s;
  CHECK(cudaEventQuery(s.event) == cudaSuccess);
  CHECK(cudaEventSynchronize(s.event) == cudaSuccess);
  for (int time = 0; time < 3; ++time) {
    s.said.clear();
    s.say(s.a, '1');
    cudaEventRecord(s.event, s.a);
    REQUIRE(cudaEventSynchronize(s.event) == cudaSuccess);
    CHECK(s.said == "1");
    CHECK(cudaEventQuery(s.event) == cudaSuccess);
  }
}

TEST_CASE("who waits for an emulated device waits for all its streams") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    set_seed(seed);
    Streams s, more;
    for (const char what : {'1', '2', '3'}) {
      s.say(s.a, what), s.say(s.b, what);
      more.say(more.a, what), more.say(more.b, what);
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(s.said.size() + more.said.size() == 12);
  }
}

TEST_CASE("freeing emulated memory, and copying at once, wait for all streams") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    Streams s;
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 8) == cudaSuccess);
    char here[8] = {};
    cudaMemsetAsync(memory, 7, 8, s.a);
    REQUIRE(cudaMemcpy(here, memory, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(here[7] == 7);
    cudaMemsetAsync(memory, 1, 8, s.b);
    CHECK(cudaFree(memory) == cudaSuccess);
  }
}
