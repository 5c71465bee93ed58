// A neighbour whose payloads do not decode: it is muted and named; runs that wait for it end, others go on.
#include <cmath>

#include "attackers.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr PeerId kAttacker = 2;

struct Attacked {
  explicit Attacked(const Settings& settings)
      : run(small_job(Settings{"exchange.codec=dense", "sim.attackers=[\"peer2=nan\"]"} + settings)) {
    run.simulation.on_log = [this](PeerId p, double, const std::string& line) {
      if (p != kAttacker && says(line, "muted peer peer2: ")) named.push_back(p);
    };
    run.go();
    for (PeerId p = 0; p < run.result.peers.size(); ++p)
      for (const float x : run.simulation.parameters(p)) finite &= p == kAttacker || std::isfinite(x);
  }
  const WorkerResult& of(PeerId peer) const { return run.result.peers[peer]; }
  std::vector<PeerId> named{};  ///< that said so, in order
  bool finite = true;           ///< parameters of the others
  Run run;
};

const std::vector<std::string> kNamed{"peer2"};

}  // namespace

TEST_CASE(
    "where rounds wait for a peer whose payloads do not decode, its neighbours name it and the run ends") {
  const std::vector<Settings> jobs{
      {"exchange.method=dpsgd"},
      {"exchange.method=dpsgd", "exchange.staleness=2"},
      {"exchange.method=choco"},
      {"exchange.method=gradient_tracking"},
      {"exchange.method=allreduce", "graph.kind=full"},
      {"exchange.method=broadcast", "graph.kind=full"},
      {"exchange.method=diloco", "graph.kind=full", "exchange.local_steps=4"},
      {"exchange.method=local_sgd", "exchange.local_steps=2"},
  };
  for (const Settings& job : jobs) {
    const Attacked attacked(job);
    INFO(job[0] << " " << job.back());
    CHECK(attacked.finite);
    CHECK_FALSE(attacked.named.empty());
    for (const PeerId p : attacked.named) {
      CHECK(attacked.of(p).muted == kNamed);
      CHECK(says(attacked.of(p).message, "muted peer peer2: 3 payloads in its name did not decode"));
      CHECK(says(attacked.of(p).message, "wait for it"));
    }
    for (PeerId p = 0; p < 4; ++p) {
      INFO("peer" << p << ": " << attacked.of(p).message);
      CHECK(attacked.of(p).outcome == node::Outcome::lost_peer);
      if (p != kAttacker) CHECK(says(attacked.of(p).message, "peer2"));
    }
    CHECK(says(attacked.of(kAttacker).message, "this peer was muted, says peer"));
    CHECK(attacked.run.result.virtual_seconds < 60);  // run.stall_timeout is far away
  }
}

TEST_CASE("where nobody waits, a run goes on without a peer whose payloads do not decode") {
  for (const char* method : {"dpsgd", "choco", "pairwise"}) {
    INFO(method);
    const Attacked attacked(
        {std::string("exchange.method=") + method, "exchange.staleness=unbounded", "run.rounds=100"});
    CHECK(attacked.finite);
    for (const PeerId p : {0u, 1u, 3u}) {
      INFO("peer" << p << ": " << attacked.of(p).message);
      CHECK(attacked.of(p).outcome == node::Outcome::finished);
    }
    CHECK(attacked.named.size() == 2);  // its neighbours in the ring
    for (const PeerId p : {1u, 3u}) {
      CHECK(attacked.of(p).muted == kNamed);
      const auto& refused = attacked.of(p).refused;
      REQUIRE(refused.size() == 1);
      CHECK(refused[0].first == kAttacker);
      CHECK(refused[0].second[static_cast<std::size_t>(Refusal::payload)] == 3);
      CHECK(refused[0].second[static_cast<std::size_t>(Refusal::muted)] > 0);
    }
    CHECK(attacked.of(0).muted.empty());
  }
}

TEST_CASE("run.mute_after says how many, and 0 that nobody is muted") {
  const Settings job{"exchange.method=dpsgd", "exchange.staleness=unbounded", "run.rounds=100"};
  const Attacked never(job + Settings{"run.mute_after=0"}), five(job + Settings{"run.mute_after=5"});
  const auto payloads = [](const Attacked& a) {
    return a.of(1).refused.at(0).second[static_cast<std::size_t>(Refusal::payload)];
  };
  CHECK(never.named.empty());
  CHECK(payloads(never) > 5);
  CHECK(never.of(1).outcome == node::Outcome::finished);
  CHECK(five.named.size() == 2);
  CHECK(payloads(five) == 5);
}

TEST_CASE("what is only corrupted on the wire mutes nobody") {
  Run run(small_job({"exchange.method=dpsgd", "exchange.codec=dense", "sim.garble=0.2", "run.rounds=60"}));
  run.go();
  CHECK(run.all(node::Outcome::finished));
  for (const WorkerResult& r : run.result.peers) CHECK(r.muted.empty());
}

TEST_CASE("rules bear payloads that do not decode, and mute nobody") {
  for (const char* rule : {"krum:f=1", "median:f=1", "centered_clip:f=1", "trimmed_mean:f=1"}) {
    INFO(rule);
    const Attacked attacked({"exchange.method=broadcast", "graph.kind=full", "peers=6",
                             std::string("exchange.aggregate=") + rule});
    CHECK(attacked.finite);
    CHECK(attacked.named.empty());
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << attacked.of(p).message);
      if (p != kAttacker) CHECK(attacked.of(p).outcome == node::Outcome::finished);
      CHECK(attacked.of(p).muted.empty());
    }
  }
}
