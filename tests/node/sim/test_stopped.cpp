// A peer that stands still for a minute: what waits for it is bounded, and where nobody waits the others go
// on.
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr std::size_t kFloats = 33;  ///< of the model: one parcel
constexpr std::size_t kPayload = 16 + 8 * kFloats;
constexpr std::size_t kWindow = 4;  ///< rounds of messages that may wait for a neighbour

Run& paused(Run& run) {
  run.go();
  INFO(run.result.peers[0].message);
  CHECK(run.all(Outcome::finished));
  CHECK(run.result.virtual_seconds > 60);
  return run;
}

Job minute_long(const Settings& settings) {
  return small_job(Settings{"exchange.codec=dense", "sim.pause=[\"peer2@0.05s+60s\"]",
                            "run.silence_timeout=200", "sim.step_time=5ms"} +
                   settings);
}

}  // namespace

TEST_CASE("where nobody waits, messages to a peer that stands still are held back, and the others go on") {
  for (const char* method : {"dpsgd", "choco", "push_sum"}) {
    INFO(method);
    Run run(minute_long(
        {std::string("exchange.method=") + method, "exchange.staleness=unbounded", "run.rounds=15000"}));
    paused(run);
    for (const PeerId p : {1u, 3u}) {
      const WorkerResult& r = run.result.peers[p];
      CHECK(r.rounds > 10000);
      CHECK(r.held_back > 5000);
      CHECK(r.queued_bytes_most <= kWindow * kPayload);
    }
    CHECK(run.result.peers[0].held_back < 100);
  }
}

TEST_CASE("where rounds wait, what may wait for a peer that stands still goes by the staleness") {
  for (const std::uint64_t staleness : {0, 2, 5}) {
    Run run(minute_long(
        {"exchange.method=dpsgd", "exchange.staleness=" + std::to_string(staleness), "run.rounds=200"}));
    paused(run);
    for (const WorkerResult& r : run.result.peers) {
      CHECK(r.held_back == 0);
      CHECK(r.queued_bytes_most > 0);
      CHECK(r.queued_bytes_most <= (2 * staleness + 2) * kPayload);
    }
  }
}
