// A peer that stops for good: the others end, say who it was, and nobody waits for ever.
#include <random>

#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const std::vector<Settings>& cases() {
  static const std::vector<Settings> all{
      {"exchange.method=choco", "exchange.codec=onebit_scaled"},
      {"exchange.method=dpsgd", "exchange.codec=dense"},
      {"exchange.method=allreduce", "exchange.codec=dense", "graph.kind=ring"},
      {"exchange.method=choco", "exchange.codec=onebit_scaled", "exchange.staleness=2"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.staleness=unbounded"},
  };
  return all;
}

bool names(const std::string& message, PeerId peer) {
  return message.find("peer" + std::to_string(peer)) != std::string::npos;
}
bool names_only(const std::string& message, PeerId peer, std::size_t peers) {
  for (PeerId p = 0; p < peers; ++p)
    if (names(message, p) != (p == peer)) return false;
  return true;
}

/// Every peer but the crashed one has ended.
bool all_ended(const Run& run, PeerId crashed) {
  for (PeerId p = 0; p < run.result.peers.size(); ++p) {
    const Outcome outcome = run.result.peers[p].outcome;
    if (p != crashed && (outcome == Outcome::running || outcome == Outcome::interrupted)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every peer names the one that was lost within five seconds") {
  for (const char* graph : {"ring", "star", "full", "one_peer_exponential"})
    for (const PeerId crashed : {0U, 2U, 5U}) {
      const std::string kind = std::string("graph.kind=") + graph;
      Run run(
          small_job({"exchange.method=dpsgd", "exchange.codec=dense", "peers=6", kind, "run.rounds=100000"}),
          {1, {{crashed, 2.34}}});
      run.go();
      INFO(graph << ", peer " << crashed);
      CHECK(run.result.virtual_seconds <= 2.34 + 5);
      for (PeerId p = 0; p < 6; ++p) {
        if (p == crashed) continue;
        INFO("peer " << p << ": " << run.result.peers[p].message);
        CHECK(run.result.peers[p].outcome == Outcome::lost_peer);
        CHECK(names_only(run.result.peers[p].message, crashed, 6));
      }
    }
}

TEST_CASE("nobody hangs whenever a peer stops") {
  std::mt19937_64 random(1);
  std::size_t finished = 0, lost = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Job job = small_job(cases()[seed % cases().size()] +
                        Settings{"peers=5", "run.rounds=40", "run.join_timeout=3", "run.drain_timeout=20"});
    const bool rough = seed % 3 == 0;
    if (rough) job.sim.loss = job.sim.duplicate = job.sim.reorder = 0.1;
    const double end = Run(job, {seed, {}}).go().result.virtual_seconds;
    const double when = end * static_cast<double>(random() >> 11) * 0x1p-53;
    const auto crashed = static_cast<PeerId>(random() % 5);
    Run run(job, {seed, {{crashed, when}}});
    run.go();
    INFO("seed " << seed << ": peer " << crashed << " at " << when << " of " << end);
    CHECK(all_ended(run, crashed));
    for (PeerId p = 0; p < 5; ++p) {
      if (p == crashed) continue;
      const auto& r = run.result.peers[p];
      finished += r.outcome == Outcome::finished;
      if (r.outcome != Outcome::lost_peer) continue;
      ++lost;
      INFO("peer " << p << ": " << r.message);
      if (!rough) CHECK(names_only(r.message, crashed, 5));
    }
  }
  CHECK(finished > 0);
  CHECK(lost > 0);
}

TEST_CASE("a peer may stop while it joins") {
  for (int step = 0; step < 40; ++step)
    for (const double loss : {0.0, 0.2}) {
      Job job = small_job({"peers=5", "run.join_timeout=3", "run.rounds=100000"});
      job.sim.loss = loss;
      const double when = 0.00025 * step * (loss > 0 ? 40 : 1);
      Run run(job, {static_cast<std::uint64_t>(step), {{1, when}}});
      run.go();
      INFO("stopped at " << when << " with loss " << loss);
      for (PeerId p = 0; p < 5; ++p) {
        if (p == 1) continue;
        INFO("peer " << p << ": " << run.result.peers[p].message);
        CHECK(run.result.peers[p].outcome == Outcome::lost_peer);
        if (loss == 0) CHECK(names(run.result.peers[p].message, 1));
      }
      CHECK(run.result.virtual_seconds < 30);
    }
}

// The slowest peer ends with the step that its neighbours wait for. Where that message was lost on the way
// and the peer is gone, nobody will send it again, though all know that it was done.
TEST_CASE("a peer may stop after its last round") {
  std::size_t finished = 0, lost = 0;
  for (const Settings& method : cases())
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      Job job = small_job(method +
                          Settings{"peers=5", "run.rounds=5", "run.silence_timeout=10", "sim.step_time=0.5"});
      job.sim.loss = 0.3;
      job.sim.slow = {{"peer1", 3.0}};
      double done = 0;
      {
        Run run(job, {seed, {}});
        run.simulation.on_report = [&](PeerId peer, double time, const Report& r) {
          if (peer == 1 && r.round == 5) done = time;
        };
        run.go();
        REQUIRE(run.all(Outcome::finished));
      }
      Run run(job, {seed, {{1, done + 1e-9}}});
      run.go();
      INFO(method[0] << ", seed " << seed << ", stopped at " << done);
      CHECK(all_ended(run, 1));
      for (const auto& p : run.result.peers) {
        finished += p.outcome == Outcome::finished;
        lost += p.outcome == Outcome::lost_peer;
      }
    }
  CHECK(finished > 0);
  CHECK(lost > 0);
}

TEST_CASE("all peers but one may stop") {
  Run run(small_job({"peers=4", "graph.kind=full", "run.rounds=100000"}),
          {1, {{0, 1.0}, {1, 1.0}, {3, 1.0}}});
  run.go();
  CHECK(run.result.peers[2].outcome == Outcome::lost_peer);
  const std::string& message = run.result.peers[2].message;
  CHECK((names(message, 0) || names(message, 1) || names(message, 3)));
}

TEST_CASE("a peer that stops before all are in touch is the one that is named") {
  Job job = small_job({"peers=4", "graph.kind=star", "run.join_timeout=10"});
  job.sim.cut = {{"peer2>peer0", 0, 2}};
  Run run(job, {1, {{0, 0.5}}});
  run.go();
  for (PeerId p = 1; p < 4; ++p) {
    INFO("peer " << p << ": " << run.result.peers[p].message);
    CHECK(run.result.peers[p].outcome == Outcome::lost_peer);
    CHECK(names_only(run.result.peers[p].message, 0, 4));
  }
}

TEST_CASE("who learns of a lost peer from one that gave up names the lost one") {
  Job job = small_job({"exchange.method=epidemic", "exchange.codec=dense", "exchange.staleness=unbounded",
                       "peers=9", "graph.kind=hierarchical", "run.join_timeout=20", "run.silence_timeout=5",
                       "sim.latency=0.015", "sim.loss=0.1", "sim.bandwidth=3mbit"});
  job.links = {{4, 3, 4e6, 0.117}};
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const double time : {0.07, 0.084, 0.1}) {
      Run run(job, {seed, {{3, time}}});
      run.go();
      for (PeerId p = 0; p < 9; ++p) {
        const WorkerResult& r = run.result.peers[p];
        if (p == 3 || r.outcome == Outcome::finished) continue;
        INFO("seed " << seed << ", crash at " << time << ", peer " << p << ": " << r.message);
        CHECK(names(r.message, 3));
      }
    }
}
