// Small runs with drawn configurations and faults, everything checked; and that the checkers see what they
// should.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "exchange.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "own_key.h"
#include "sim_job.h"
#include "swarm.h"

using namespace gossamer::node;

TEST_CASE("sixty seeds keep every rule") {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const SwarmCase c = draw_case(seed);
    const SwarmOutcome o = run_case(c);
    INFO("seed " << seed << ": " << describe(c));
    if (o.violation) FAIL(o.violation->checker << " at " << o.violation->time << " s: " << o.violation->what);
    for (const auto& [name, n] : o.counts) counts[name] += n;
  }
  for (const char* branch : {"frames lost", "frames cut off", "frames held by clogs", "frames copied",
                             "frames garbled", "strays of earlier starts", "frames in another's name",
                             "frames resent", "duplicates dropped", "frames reordered", "frames refused",
                             "runs with a crash", "runs with stale mixes", "compared with a calm network"}) {
    INFO(branch);
    CHECK(counts[branch] > 0);
  }
}

TEST_CASE("seeds draw every method, and the ways of those that have several") {
  Counts drawn;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const Job job = draw_case(seed).job;
    const ExchangeSettings& e = job.exchange;
    ++drawn[e.method];
    if (e.delivery == "best_effort") ++drawn[e.method + " at best effort"];
    if (e.backup > 0) ++drawn[e.method + " with a backup"];
    if (e.aggregate != "weighted" && e.aggregate != "samples") ++drawn[e.method + " by a rule"];
    if (e.outer_delay > 0) ++drawn[e.method + " with a delay"];
    if (e.fragments > 1) ++drawn[e.method + " in fragments"];
    if (kSendMomentum.of(e) > 0) ++drawn["averages of gradients"];
    if (e.momentum_correction > 0) ++drawn["momentum correction"];
    if (job.heterogeneous()) ++drawn[e.method + " of different models"];
  }
  for (const auto& method : method_table()) {
    INFO(method.name);
    CHECK(drawn[method.name] > 0);
  }
  for (const char* way :
       {"push_sum at best effort", "epidemic at best effort", "dpsgd with a backup",
        "broadcast with a backup", "topk_allgather with a backup", "dpsgd by a rule", "broadcast by a rule",
        "diloco with a delay", "noloco in fragments", "sparse_loco in fragments", "averages of gradients",
        "momentum correction", "ensemble of different models"}) {
    INFO(way);
    CHECK(drawn[way] > 0);
  }
}

TEST_CASE("a seed is the same run always") {
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    CHECK(to_toml(draw_case(seed).job) == to_toml(draw_case(seed).job));
    EventLog first(draw_case(seed).job.peer_names(), 1000), second(draw_case(seed).job.peer_names(), 1000);
    const SwarmOutcome a = run_case(draw_case(seed), {}, &first), b = run_case(draw_case(seed), {}, &second);
    CHECK(a.digest == b.digest);
    CHECK(a.counts == b.counts);
    CHECK(first.lines() == second.lines());
  }
  CHECK(to_toml(draw_case(3).job) != to_toml(draw_case(4).job));
}

TEST_CASE("what a seed stands for can be printed and read") {
  const gossamer::test::Folder folder;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO(seed);
    const std::string text = to_toml(draw_case(seed).job);
    CHECK(to_toml(load_job(folder.write("job.toml", text))) == text);
  }
}

TEST_CASE("who joined late may name those whom a peer that stood still found gone") {
  SwarmCase c;
  c.seed = 1;
  c.failing = {0};
  c.job =
      test::small_job({"graph.kind=star", "exchange.method=dpsgd", "exchange.codec=dense", "run.rounds=12",
                       "run.silence_timeout=8", "sim.latency=0.009", "sim.slow=[\"peer0=20\"]",
                       "sim.cut=[\"peer0>peer1@0.012s+0.5s\"]", "sim.pause=[\"peer0@0.2s+42s\"]"});
  EventLog log(c.job.peer_names(), 100000);
  const SwarmOutcome o = run_case(c, {}, &log);
  CHECK(o.outcome == "lost_peer");
  CHECK(std::any_of(log.lines().begin(), log.lines().end(), [](const std::string& line) {
    return line.find("peer1") < 24 && line.find("ends: lost peer peer2") != std::string::npos;
  }));
  if (o.violation) FAIL(o.violation->what);
}

TEST_CASE("a swarm of processes tells what the seeds tell one by one") {
  Swarm swarm;
  swarm.first = 10;
  swarm.count = 5;
  swarm.processes = 2;
  swarm.draw = [](std::uint64_t seed) { return draw_case(seed); };
  std::map<std::uint64_t, SwarmOutcome> told;
  run_swarm(swarm, [&](const SwarmOutcome& o) {
    told[o.seed] = o;
    return true;
  });
  REQUIRE(told.size() == 5);
  for (const auto& [seed, o] : told) {
    const SwarmOutcome alone = run_case(draw_case(seed));
    CHECK(o.outcome == alone.outcome);
    CHECK(o.digest == alone.digest);
    CHECK(o.counts == alone.counts);
    CHECK(o.violation.has_value() == alone.violation.has_value());
  }
}

TEST_CASE("a seed that takes long and goes on is no violation") {
  Swarm swarm;
  swarm.count = 1;
  swarm.patience_s = gossamer::test::kSanitized ? 5 : 0.5;
  swarm.draw = [](std::uint64_t seed) {
    SwarmCase c;
    c.seed = seed;
    c.job = test::small_job({"peers=8", "model.kind=mlp", "model.hidden=[64]", "exchange.method=dpsgd",
                             "exchange.codec=dense",
                             gossamer::test::kSanitized ? "run.rounds=1500" : "run.rounds=3000"});
    return c;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Violation> violation;
  run_swarm(swarm, [&](const SwarmOutcome& o) {
    violation = o.violation;
    return true;
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  INFO("took " << took.count() << " s: " << (violation ? violation->what : ""));
  if (took.count() < swarm.patience_s) WARN("this machine was done before patience ended");
  CHECK_FALSE(violation);
}

TEST_CASE("a process that a busy machine does not run for a while is no violation") {
  Swarm swarm;
  swarm.count = 2;
  swarm.patience_s = 0.2;
  swarm.draw = [](std::uint64_t seed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    return draw_case(seed);
  };
  run_swarm(swarm, [&](const SwarmOutcome& o) {
    INFO(o.seed << ": " << (o.violation ? o.violation->what : ""));
    CHECK_FALSE(o.violation);
    return true;
  });
}

TEST_CASE("a process that dies or hangs is a violation of the seed that it was at") {
  Swarm swarm;
  swarm.first = 1;
  swarm.count = 3;
  swarm.patience_s = 0.5;
  swarm.draw = [](std::uint64_t seed) {
    if (seed == 2) std::_Exit(7);
    if (seed == 3)
      for (volatile bool forever = true; forever;) {
      }
    return draw_case(seed);
  };
  std::map<std::uint64_t, std::string> found;
  run_swarm(swarm, [&](const SwarmOutcome& o) {
    found[o.seed] = o.violation ? o.violation->checker : "none";
    return true;
  });
  CHECK(found == std::map<std::uint64_t, std::string>{{1, "none"}, {2, "assertion"}, {3, "stall"}});
}
