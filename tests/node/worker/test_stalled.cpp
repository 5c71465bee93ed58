// A run that stands still although every peer is alive.
#include "exchange.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "stall.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

TEST_CASE("a round that does not end ends the run, and every peer says what it waits for") {
  std::size_t stalled = 0;
  for (const auto& method : method_table())
    for (const char* staleness : {"0", "1"}) {
      const auto job = sound_job(method.name, staleness,
                                 {"run.rounds=60", "run.stall_timeout=60", "sim.slow=[\"peer1=1e6\"]"});
      if (!job || std::string(method.name) == "none") continue;
      INFO(method.name << " staleness " << staleness << " codec " << job->exchange.codec);
      const SimResult result = Simulation(prepare(*job), {}).run();
      if (job->exchange.method == "pairwise") continue;  // waits for nobody
      CHECK(result.virtual_seconds >= 60);
      CHECK(result.virtual_seconds < 62);
      for (PeerId p = 0; p < result.peers.size(); ++p) {
        const WorkerResult& r = result.peers[p];
        INFO("peer " << p << ": " << r.message);
        stalled += r.outcome == Outcome::stalled;
        CHECK((r.outcome == Outcome::stalled || r.outcome == Outcome::lost_peer));
        if (p == 1) CHECK(says(r.message, "it was computing its own gradient"));
        if (p != 1) CHECK(says(r.message, "it was waiting for "));
        if (p == 0) CHECK(says(r.message, "peer1's parcel "));
      }
    }
  CHECK(stalled > 30);
}

TEST_CASE("slow peers are waited for where rounds are slow, or where no bound is set") {
  for (const char* bound : {"run.stall_timeout=0", "run.stall_timeout=900"}) {
    const Job job = small_job({"run.rounds=3", "sim.step_time=0.1", "sim.slow=[\"peer1=5e3\"]", bound});
    const SimResult result = Simulation(prepare(job), {}).run();
    for (const WorkerResult& r : result.peers) CHECK(r.outcome == Outcome::finished);
  }
}

TEST_CASE(
    "only waiting counts, ten times the longest round is never too long, nor is a pause of the process") {
  StallWatch watch(10);
  double now = 0;
  const auto pass = [&](double seconds, bool waits) {
    for (const double end = now + seconds; now < end; now += 0.5) watch.on_time(now, waits);
  };
  pass(100, false);
  CHECK_FALSE(watch.stalled());
  watch.on_round(3);
  pass(28, true);
  CHECK_FALSE(watch.stalled());
  now += 1000;  // stopped, or asleep
  watch.on_time(now, true);
  CHECK_FALSE(watch.stalled());
  pass(3, true);
  CHECK(watch.stalled());
  watch.on_round(33);
  CHECK_FALSE(watch.stalled());
}
