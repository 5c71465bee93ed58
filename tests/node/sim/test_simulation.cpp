// Whole runs in virtual time: what the network does must not show in what is learned.
#include <chrono>

#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

struct Case {
  const char* name;
  Settings settings;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"choco", {"exchange.method=choco", "exchange.codec=onebit_scaled"}},
      {"choco over qsgd", {"exchange.method=choco", "exchange.codec=qsgd:bits=4,norm=max"}},
      {"dpsgd", {"exchange.method=dpsgd", "exchange.codec=dense"}},
      {"dpsgd with overlap", {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.overlap=true"}},
      {"dpsgd one peer a round",
       {"exchange.method=dpsgd", "exchange.codec=dense", "graph.kind=one_peer_exponential"}},
      {"allreduce", {"exchange.method=allreduce", "exchange.codec=dense"}},
      {"allreduce over qsgd", {"exchange.method=allreduce", "exchange.codec=qsgd:bits=4", "graph.kind=full"}},
      {"allreduce over onebit_scaled",
       {"exchange.method=allreduce", "exchange.codec=onebit_scaled", "graph.kind=full"}},
      {"none", {"exchange.method=none"}},
      {"choco with overlap",
       {"exchange.method=choco", "exchange.codec=onebit_scaled", "exchange.overlap=true"}},
  };
  return all;
}

Job job_of(const Case& c) { return small_job(c.settings + Settings{"exchange.parcel=16"}); }

}  // namespace

TEST_CASE("a synchronous run learns the same on every network") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const Job job = job_of(c);
    const std::uint64_t digest = digest_of(job);
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
      Job rough = job;
      rough.sim.loss = 0.1;
      rough.sim.duplicate = 0.1;
      rough.sim.reorder = 0.2;
      rough.sim.jitter = 0.003;
      rough.sim.step_jitter = 0.5;
      CHECK(digest_of(rough, {seed, {}}) == digest);
    }
    Job uneven = job;
    uneven.sim.slow = {{"peer1", 7.0}, {"peer3", 0.2}};
    uneven.links = {{0, 1, 1e5, 0.2}, {2, 3, 1e9, 1e-6}};
    CHECK(digest_of(uneven) == digest);
    Job thin = job;
    thin.sim.bandwidth = 2e5;
    CHECK(digest_of(thin) == digest);
  }
}

TEST_CASE("on a calm network no message overtakes an earlier one, however many wait") {
  // Delivery keeps the order of sending: what overtook would only keep others waiting. In a graph of one-way
  // edges a peer runs ahead of those that it sends to, so that messages of several rounds wait together.
  for (const char* staleness : {"0", "2", "\"unbounded\""}) {
    INFO(staleness);
    Run run(small_job({"peers=8", "graph.kind=exponential", "exchange.method=dpsgd", "exchange.codec=dense",
                       "exchange.parcel=16", "sim.bandwidth=2e4", "sim.step_time=0.01",
                       std::string("exchange.staleness=") + staleness}));
    REQUIRE(run.go().all(Outcome::finished));
    for (const auto& peer : run.result.peers) CHECK(peer.traffic.reordered == 0);
  }
}

TEST_CASE("a frame that takes seconds to leave is not taken for lost meanwhile") {
  Run run(small_job({"exchange.method=dpsgd", "exchange.codec=dense", "data.features=8000",
                     "sim.bandwidth=5e5", "run.rounds=6"}));
  REQUIRE(run.go().all(Outcome::finished));
  CHECK(run.result.virtual_seconds > 6 * 1.5);  // 96 kB in one frame
  for (const auto& peer : run.result.peers) CHECK(peer.traffic.resent == 0);
}

TEST_CASE("a rough network is really rough") {
  Job job = job_of(cases()[0]);
  job.sim.loss = 0.1;
  job.sim.duplicate = 0.1;
  job.sim.reorder = 0.2;
  Run run(job);
  run.go();
  LinkCounters sum;
  for (const auto& p : run.result.peers) {
    sum.resent += p.traffic.resent;
    sum.duplicates += p.traffic.duplicates;
    sum.reordered += p.traffic.reordered;
    CHECK(p.traffic.refused() == 0);
  }
  CHECK(sum.resent > 10);
  CHECK(sum.duplicates > 10);
  CHECK(sum.reordered > 10);
}

TEST_CASE("run.seed changes what is learned") {
  for (const Case& c : cases()) {
    Job job = job_of(c);
    const std::uint64_t digest = digest_of(job);
    CHECK(digest_of(job) == digest);
    job.run.seed = 2;
    INFO(c.name);
    CHECK(digest_of(job) != digest);
  }
}

TEST_CASE("an asynchronous run repeats with its seeds") {
  const Settings asynchronous{"exchange.staleness=unbounded", "sim.jitter=0.004", "sim.loss=0.05"};
  for (const Settings& method :
       {Settings{"exchange.method=choco"}, Settings{"exchange.method=dpsgd", "exchange.codec=dense"}}) {
    const Job job = small_job(method + asynchronous);
    CHECK(digest_of(job, {5, {}}) == digest_of(job, {5, {}}));
    CHECK(digest_of(job, {5, {}}) != digest_of(job, {6, {}}));
  }
}

// Objectives with loops of their own give these bits on every machine, from every compiler and in every
// build.
TEST_CASE("digests of known jobs") {
  struct Golden {
    const char* model;
    std::size_t method;
    std::uint64_t digest;
  };
  const std::vector<Golden> goldens{
      {"quadratic", 0, 0x28981481effb8b3b}, {"quadratic", 2, 0xc6aa58de0adea084},
      {"quadratic", 6, 0x0890369b9f1650d0}, {"softmax", 0, 0x86d91f4cd3445cea},
      {"softmax", 2, 0xc7572df17618345f},   {"softmax", 6, 0xfdc684b6c04cee18},
  };
  for (const auto& g : goldens) {
    Job job = job_of(cases()[g.method]);
    job.model.kind = g.model;
    job.optimizer.kind = "momentum";
    if (reads(find_method(job.exchange.method), "exchange.gamma")) job.exchange.gamma = 0.5;
    INFO(g.model << " " << cases()[g.method].name);
    CHECK(digest_of(job) == g.digest);
  }
}

TEST_CASE(
    "the sum of estimates that a synchronous peer keeps is that of what its neighbours hold of themselves") {
  for (const char* codec : {"onebit_scaled", "topk:density=0.1", "qsgd:bits=4,norm=max"})
    for (const char* graph : {"ring", "star", "full"}) {
      Run run(
          small_job({"peers=5", std::string("exchange.codec=") + codec, std::string("graph.kind=") + graph,
                     "sim.loss=0.1", "sim.duplicate=0.1", "sim.reorder=0.2", "exchange.parcel=16"}));
      run.go();
      REQUIRE(run.all(Outcome::finished));
      const topology::Schedule schedule = topology::make_schedule(run.prepared.job.graph);
      for (PeerId i = 0; i < 5; ++i) {
        const auto sum = run.simulation.slot(i, 2), own = run.simulation.slot(i, 3);
        CHECK_FALSE(Run::same_bits(own, run.prepared.initial));
        INFO(codec << " on " << graph << ": " << i);
        double largest = 0, furthest = 0;
        for (std::size_t k = 0; k < sum.size(); ++k) {
          double expected = 0;
          for (const auto& e : schedule.at(0).in(i)) {
            const double theirs = static_cast<double>(run.simulation.slot(e.peer, 3)[k]);
            expected += static_cast<double>(e.weight) * (theirs - static_cast<double>(own[k]));
          }
          largest = std::max(largest, std::abs(expected));
          furthest = std::max(furthest, std::abs(expected - static_cast<double>(sum[k])));
        }
        CHECK(largest > 1e-4);
        CHECK(furthest < 1e-6);
      }
    }
}

TEST_CASE("more peers than slices and more slices than entries") {
  for (const char* codec : {"dense", "onebit_scaled", "qsgd:bits=4", "topk:density=0.1"}) {
    Run run(small_job({"peers=9", "graph.kind=full", "exchange.method=allreduce", "exchange.parcel=16",
                       std::string("exchange.codec=") + codec}));
    INFO(codec);
    CHECK(run.go().all(Outcome::finished));
    CHECK(run.peers_identical());
  }
}

TEST_CASE("one peer alone trains with every method") {
  for (const Case& c : cases()) {
    if (std::string(c.name) == "dpsgd one peer a round") continue;
    Job job = job_of({c.name, c.settings + Settings{"peers=1"}});
    Run run(job);
    INFO(c.name);
    CHECK(run.go().all(Outcome::finished));
    CHECK(run.result.peers[0].rounds == 20);
  }
}

TEST_CASE("64 peers take seconds") {
  const Settings settings{"peers=64",       "model.kind=mlp", "model.hidden=[32]",         "data.features=16",
                          "data.rows=4096", "run.rounds=20",  "graph.kind=random_regular", "graph.degree=4"};
  Run run(small_job(settings));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run.go().all(Outcome::finished));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds < 20);
}

TEST_CASE("a synchronous run learns the same whatever befalls links and peers for a while") {
  const Case& c = cases()[0];
  Job job = job_of(c);
  const std::uint64_t digest = digest_of(job);
  job.sim.cut = {{"peer0>peer1", 0.02, 1.5}, {"peer2>peer1", 0.1, 0.4}};
  job.sim.clog = {{"peer3>peer2", 0, 0.7}, {"peer3>peer2", 0.5, 0.7}};
  job.sim.pause = {{"peer1", 0.05, 1.2}};
  job.sim.stray = job.sim.garble = 0.1;
  Run run(job);
  run.go();
  CHECK(run.all(Outcome::finished));
  CHECK(run.result.digest == digest);
  std::uint64_t dropped = 0;
  for (const auto& p : run.result.peers) dropped += p.dropped_frames;
  CHECK(dropped > 10);
  CHECK(run.result.virtual_seconds > 1.5);
}

TEST_CASE("windows are written as they are read, and name peers of the job") {
  const Job job = small_job({"sim.cut=[\"peer0>peer1@0.25s+1.5s\"]", "sim.pause=[\"peer2@1s+500ms\"]"});
  REQUIRE(job.sim.cut.size() == 1);
  CHECK(job.sim.cut[0].where == "peer0>peer1");
  CHECK(job.sim.cut[0].begin == 0.25);
  CHECK(job.sim.cut[0].seconds == 1.5);
  CHECK(job.sim.pause[0].seconds == 0.5);
  CHECK(to_toml(job).find("cut = [\"peer0>peer1@0.25s+1.5s\"]") != std::string::npos);
  CHECK_THROWS_AS(small_job({"sim.pause=[\"peer2\"]"}), ConfigError);
  CHECK_THROWS_AS(Run(small_job({"sim.clog=[\"peer2@1s+1s\"]"})), ConfigError);
  CHECK_THROWS_AS(Run(small_job({"sim.pause=[\"alpha@1s+1s\"]"})), ConfigError);
}
