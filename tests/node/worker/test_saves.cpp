// Checkpoints that peers agree on: which rounds, that the set of them is a cut of the run, and that it goes
// on from there to the bits that it would have come to.
#include <fmt/format.h>

#include "archive.h"
#include "courses.h"
#include "gossamer_test/catch.h"
#include "saver.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

/// Names of checkpoints that every peer has.
std::vector<Round> complete(const SimCheckpoints& c, std::size_t peers) {
  std::vector<Round> names;
  for (const auto& [name, of_peers] : c.kept)
    if (of_peers.size() == peers) names.push_back(name);
  return names;
}

std::uint64_t digest_from(const Prepared& prepared, SimCheckpoints& c, std::uint64_t seed) {
  c.go_on = true;
  Simulation simulation(prepared, {.seed = seed, .crashes = {}, .checkpoints = &c});
  const SimResult run = simulation.run();
  for (const WorkerResult& r : run.peers) CHECK(r.message == "");
  return run.digest;
}

}  // namespace

TEST_CASE("peers that go by rounds save after the same ones, and change nothing by it") {
  for (const char* method : {"choco", "dpsgd", "allreduce"})
    for (const char* loss : {"0", "0.1"}) {
      INFO(method << " loss " << loss);
      const Prepared prepared = prepare(
          small_job({std::string("exchange.method=") + method, "exchange.codec=dense", "run.rounds=50",
                     std::string("sim.loss=") + loss, "sim.slow=[\"peer1=3\"]", "peers=5"}));
      SimCheckpoints c{.saves = {.every_rounds = 12}};
      const std::uint64_t digest = Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run().digest;
      CHECK(digest == Simulation(prepared, {}).run().digest);
      CHECK(complete(c, 5) == std::vector<Round>{12, 24, 36, 48});
      for (const auto& [peer, taken] : c.taken)
        for (const auto& [name, after] : taken) CHECK(name == after);
      CHECK(digest_from(prepared, c, 3) == digest);
      c.kept.erase(48);
      c.kept[36].erase(2);  // one of them is damaged: the one before it is taken
      CHECK(digest_from(prepared, c, 4) == digest);
    }
}

TEST_CASE(
    "whatever the method and codec, what peers save while others are elsewhere is one moment of the run") {
  std::size_t runs = 0;
  for (const auto& method : method_table())
    for (const char* codec : kCodecs)
      for (const char* staleness : {"0", "2"}) {
        const auto course = sound_course(method.name, codec, staleness);
        if (!course) continue;
        Prepared prepared = course->prepared;
        prepared.job.sim.slow = {{"peer1", 4.0}};
        prepared.job.sim.jitter = 0.004;
        INFO(method.name << " " << codec << " " << course->graph << " staleness " << staleness);
        SimCheckpoints c{.saves = save_spec(prepared.job)};
        if (!c.saves.together) continue;
        c.saves = {.every_rounds = 1 + runs % 7};
        const SimResult run = Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run();
        for (const WorkerResult& r : run.peers) CHECK(r.outcome == Outcome::finished);
        REQUIRE_FALSE(c.kept.empty());
        CHECK(complete(c, run.peers.size()).size() == c.kept.size());
        const bool same_bits = staleness[0] == '0';
        if (same_bits) CHECK(run.digest == Simulation(prepared, {}).run().digest);
        // from the first, one in the middle and the last; and from what a run saved that had gone on
        std::vector<Round> names;
        for (const auto& [name, states] : c.kept) names.push_back(name);
        for (const Round name : {names.front(), names[runs % names.size()], names.back()}) {
          SimCheckpoints from{.saves = c.saves};
          from.kept[name] = c.kept[name];
          const std::uint64_t digest = digest_from(prepared, from, runs + name);
          if (same_bits) CHECK(digest == run.digest);
          if (from.kept.size() < 2 || name != names.front()) continue;
          from.kept.erase(name);
          const std::uint64_t again = digest_from(prepared, from, runs + 3);
          if (same_bits) CHECK(again == run.digest);
        }
        ++runs;
      }
  CHECK(runs > 100);
}

TEST_CASE("peers that go by time agree on a round") {
  for (const auto& [graph, peers] :
       {std::pair{"ring", 4}, {"ring", 17}, {"tree", 9}, {"full", 5}, {"exponential", 8}})
    for (const char* latency : {"1us", "5ms", "300ms"})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        INFO(graph << " " << peers << " latency " << latency << " seed " << seed);
        const Prepared prepared = prepare(
            small_job({fmt::format("graph.kind={}", graph), fmt::format("peers={}", peers),
                       "exchange.method=dpsgd", "exchange.codec=dense", "run.rounds=300", "sim.loss=0.05",
                       "sim.step_time=0.01", std::string("sim.latency=") + latency}));
        const double every_s = latency == std::string("300ms") ? 8 : 1;
        SimCheckpoints c{.saves = {.every_s = every_s}};
        Simulation simulation(prepared, {.seed = seed, .crashes = {}, .checkpoints = &c});
        const SimResult run = simulation.run();
        for (const WorkerResult& r : run.peers) CHECK(r.outcome == Outcome::finished);
        CHECK(run.digest == Simulation(prepared, {}).run().digest);
        const auto names = complete(c, static_cast<std::size_t>(peers));
        const double most = run.virtual_seconds / every_s;
        CHECK(static_cast<double>(names.size()) >= 0.15 * most - 2);
        CHECK(static_cast<double>(names.size()) <= most + 1);
        for (const auto& [peer, taken] : c.taken)
          for (const auto& [name, after] : taken) CHECK(name == after);
        CHECK(c.kept.size() == names.size());
        if (!names.empty()) CHECK(digest_from(prepared, c, seed + 7) == run.digest);
      }
}

TEST_CASE(
    "peers that tell of a round before it begins save together all the same, by time, by rounds and told to "
    "end") {
  const auto job = [](const char* latency, const char* step) {
    return small_job({"graph.kind=ring", "peers=5", "exchange.method=choco", "exchange.codec=onebit_scaled",
                      "exchange.overlap=true", "exchange.parcel=128", "run.rounds=300", "sim.loss=0.05",
                      "sim.jitter=2ms", "sim.slow=[\"peer1=2\"]", std::string("sim.step_time=") + step,
                      std::string("sim.latency=") + latency});
  };
  using Pace =
      std::pair<const char*, const char*>;  // in rounds of half a second news of a save is of the next
  for (const auto& [latency, step] :
       {Pace{"1us", "0.01"}, {"5ms", "0.01"}, {"300ms", "0.01"}, {"300ms", "0.3"}})
    for (const double every_s : {0.0, 0.7, 3.0, 600.0})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        INFO("latency " << latency << ", step " << step << " s, every " << every_s << " s, seed " << seed);
        const Prepared prepared = prepare(job(latency, step));
        const std::uint64_t expected = Simulation(prepared, {}).run().digest;
        SimCheckpoints c{.saves = {.every_rounds = every_s == 0 ? 7u : 0u, .every_s = every_s}};
        const bool told = every_s == 600;
        Simulation simulation(prepared, {.seed = seed, .crashes = {}, .checkpoints = &c, .grace_s = 30});
        if (told) simulation.interrupt(static_cast<PeerId>(seed), 1.5);
        const SimResult run = simulation.run();
        if (!told) CHECK(run.digest == expected);
        REQUIRE_FALSE(c.kept.empty());
        CHECK(complete(c, 5).size() == c.kept.size());
        CHECK(digest_from(prepared, c, seed + 7) == expected);
      }
}

TEST_CASE("a run that is told to end saves first, whoever is told") {
  for (const int told : {1, 4}) {
    const Prepared prepared = prepare(small_job({"run.rounds=2000", "sim.step_time=0.01"}));
    const std::uint64_t expected = Simulation(prepared, {}).run().digest;
    SimCheckpoints c{.saves = {.every_s = 600}, .write_s = 0.7};
    Simulation simulation(prepared, {.crashes = {}, .checkpoints = &c, .grace_s = 10});
    for (PeerId p = 0; p < static_cast<PeerId>(told); ++p) simulation.interrupt(p, 5);
    const SimResult run = simulation.run();
    CHECK(run.virtual_seconds < 9);
    CHECK(says(run.peers[0].message, "all saved it after round "));
    for (PeerId p = 0; p < 4; ++p) {
      INFO(run.peers[p].message);
      const bool one_of_them = p < static_cast<PeerId>(told) && run.peers[p].outcome == Outcome::interrupted;
      CHECK((one_of_them || run.peers[p].outcome == Outcome::lost_peer));
    }
    REQUIRE(complete(c, 4).size() == 1);
    CHECK(digest_from(prepared, c, 2) == expected);
  }
}

TEST_CASE("a peer that cannot save in time ends all the same") {
  const Prepared prepared = prepare(small_job({"run.rounds=2000", "sim.step_time=0.01"}));
  SimCheckpoints c{.saves = {.every_s = 600}, .full = {2}};
  Simulation simulation(prepared, {.crashes = {}, .checkpoints = &c, .grace_s = 3});
  for (PeerId p = 0; p < 4; ++p) simulation.interrupt(p, 5);
  const SimResult run = simulation.run();
  CHECK(run.virtual_seconds < 9);
  CHECK(says(run.peers[0].message, "not all saved it within 3 s (run.grace)"));
}

TEST_CASE("a slow or full disk stops nobody") {
  const Prepared prepared = prepare(small_job({"run.rounds=100", "sim.step_time=0.01"}));
  const std::uint64_t expected = Simulation(prepared, {}).run().digest;
  for (const double write_s : {0.3, 100.0}) {
    SimCheckpoints c{.saves = {.every_rounds = 10}, .write_s = write_s, .full = {1}};
    const SimResult run = Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run();
    for (const WorkerResult& r : run.peers) CHECK(r.outcome == Outcome::finished);
    CHECK(run.digest == expected);
    CHECK(complete(c, 4).empty());
    CHECK(complete(c, 3).size() == (write_s < 1 ? 8 : 4));
  }
}

TEST_CASE("peers that wait for nobody save each at its own time, whoever stands still") {
  const Prepared prepared =
      prepare(small_job({"exchange.method=dpsgd", "exchange.codec=dense", "exchange.staleness=unbounded",
                         "run.rounds=400", "sim.step_time=0.01", "sim.slow=[\"peer3=300\"]"}));
  SimCheckpoints c{.saves = {.every_s = 1, .together = false}};
  const SimResult run = Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run();
  for (const WorkerResult& r : run.peers) CHECK(r.outcome == Outcome::finished);
  for (PeerId p = 0; p < 3; ++p) {
    CHECK(static_cast<double>(c.taken[p].size()) >= run.virtual_seconds / 1.2 - 2);
    for (const auto& [name, after] : c.taken[p]) CHECK(name == after);
  }
}

TEST_CASE("where no checkpoint is at all peers, each says who has which") {
  const Prepared prepared = prepare(small_job({"run.rounds=30"}));
  SimCheckpoints c{.saves = {.every_rounds = 10}};
  Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run();
  c.kept[10].erase(0);
  c.kept[20].erase(1);
  c.go_on = true;
  const SimResult run = Simulation(prepared, {.crashes = {}, .checkpoints = &c}).run();
  for (const WorkerResult& r : run.peers) {
    INFO(r.message);
    CHECK((r.outcome == Outcome::bad_input || r.outcome == Outcome::lost_peer));
  }
  CHECK(says(run.peers[0].message, "no checkpoint is whole at all peers: peer0 has 20; peer1 has 10;"));
}

TEST_CASE("who hears of a round that it has passed names a later one, and the greatest counts") {
  Saver early({.every_s = 10}, 2, 0), late({.every_s = 10}, 2, 1);
  early.begin(0, 0);
  late.begin(0, 0);
  CHECK_FALSE(early.on_round(5, 9.9, 1));
  CHECK(early.on_round(6, 10, 1));
  CHECK(early.news().at == 7);
  CHECK(early.due(7) == 7u);
  CHECK(late.merge(early.news(), 7, true, 1));
  CHECK(late.news().at == 8);
  CHECK(early.merge(late.news(), 7, false, 1));
  CHECK_FALSE(early.due(7));
  CHECK(early.due(8) == 8u);
  early.taken(8, 12);
  CHECK_FALSE(early.due(9));
  CHECK_FALSE(early.on_round(9, 21.9, 1));
  SaveNews hostile{.at = Round{1} << 47, .holding = {0, 0}, .taken = {0, 0}, .committed = {0, 0}};
  CHECK_FALSE(early.merge(hostile, 9, true, 1));
}
