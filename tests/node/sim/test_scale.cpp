// Many peers, heterogeneous machines, several threads.
#include <set>

#include "gossamer_test/catch.h"
#include "profile.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

SimResult run_with(const Prepared& prepared, std::size_t threads, SimFaults faults = {}) {
  Simulation simulation(prepared, std::move(faults), nullptr, threads);
  return simulation.run();
}

const Settings kRough{"sim.loss=0.05", "sim.duplicate=0.05", "sim.reorder=0.1", "sim.jitter=0.003",
                      "sim.step_jitter=0.5"};
const Settings kUnlike{"sim.speeds=lognormal", "sim.links=mixed", "sim.day=4", "sim.night=0.3"};

}  // namespace

TEST_CASE("any number of threads gives the same run") {
  const Settings small{"peers=6", "run.rounds=12", "exchange.parcel=16"};
  const std::vector<Settings> methods{
      {"exchange.method=choco"},
      {"exchange.method=choco", "exchange.staleness=unbounded"},
      {"exchange.method=choco", "exchange.staleness=2", "sim.step_jitter=0"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "graph.kind=base"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.staleness=unbounded",
       "data.split=global_shuffle"},
      {"exchange.method=allreduce", "exchange.codec=onebit_scaled", "graph.kind=full"},
      {"exchange.method=gradient_tracking", "exchange.codec=dense", "optimizer.kind=momentum"},
      {"exchange.method=none", "model.kind=mlp"},
  };
  for (const Settings& method : methods)
    for (const Settings& world : {Settings{}, kRough, kUnlike}) {
      INFO(method[0] << " " << method.back() << (world.empty() ? "" : " " + world[0]));
      const Prepared prepared = prepare(small_job(small + method + world + Settings{"run.evaluate_every=1"}));
      const SimResult one = run_with(prepared, 1);
      REQUIRE(one.peers[0].outcome == Outcome::finished);
      for (const std::size_t threads : {2, 5}) {
        const SimResult many = run_with(prepared, threads);
        CHECK(many.digest == one.digest);
        CHECK(many.virtual_seconds == one.virtual_seconds);
        for (std::size_t p = 0; p < one.peers.size(); ++p) {
          CHECK(many.peers[p].traffic.bytes_out == one.peers[p].traffic.bytes_out);
          CHECK(many.peers[p].train_loss == one.peers[p].train_loss);
        }
      }
    }
}

TEST_CASE("any number of threads ends a failed run alike") {
  const Settings diverging{"model.kind=quadratic", "optimizer.learning_rate=1e30"};
  for (const Settings& cause :
       {diverging, diverging + Settings{"exchange.method=dpsgd", "exchange.codec=dense"}}) {
    const Prepared prepared = prepare(small_job(cause));
    const SimResult one = run_with(prepared, 1), three = run_with(prepared, 3);
    std::set<Outcome> outcomes;
    for (std::size_t p = 0; p < one.peers.size(); ++p) {
      outcomes.insert(one.peers[p].outcome);
      CHECK(three.peers[p].outcome == one.peers[p].outcome);
      CHECK(three.peers[p].message == one.peers[p].message);
    }
    CHECK(outcomes.contains(Outcome::failed));
  }
  const Prepared prepared = prepare(small_job({}));
  const SimFaults crash{1, {{2, 0.03}}};
  CHECK(run_with(prepared, 1, crash).peers[0].message == run_with(prepared, 4, crash).peers[0].message);
}

TEST_CASE("machines and links are drawn from the seed, within what was asked for") {
  Job job = small_job(
      {"peers=200", "data.rows=2048", "sim.speeds=uniform", "sim.speed_spread=20", "sim.links=mixed"});
  const SimProfile one(job, 1), again(job, 1), other(job, 2);
  double least = 100, most = 0;
  std::size_t differ = 0;
  std::vector<std::size_t> of_class(link_classes().size());
  for (PeerId p = 0; p < 200; ++p) {
    least = std::min(least, one.slowness(p));
    most = std::max(most, one.slowness(p));
    CHECK(one.slowness(p) == again.slowness(p));
    differ += one.slowness(p) != other.slowness(p);
    const LinkQuality link = one.link(p, (p + 1) % 200), back = one.link((p + 1) % 200, p);
    CHECK(link.bandwidth == back.bandwidth);
    CHECK(link.latency == back.latency);
    std::size_t fits = 0;
    for (const LinkClass& c : link_classes())
      fits += c.least.bandwidth <= link.bandwidth && link.bandwidth <= c.most.bandwidth &&
              c.least.latency <= link.latency && link.latency <= c.most.latency;
    CHECK(fits >= 1);
  }
  CHECK(least >= 1);
  CHECK(least < 2);
  CHECK(most <= 20);
  CHECK(most > 18);
  CHECK(differ == 200);

  job.sim.speeds = "lognormal";
  std::vector<double> slowness;
  for (PeerId p = 0; p < 200; ++p) slowness.push_back(SimProfile(job, 1).slowness(p));
  std::sort(slowness.begin(), slowness.end());
  CHECK(slowness.front() >= 1);
  CHECK(slowness.back() <= 20);
  CHECK(slowness[100] == Approx(std::sqrt(20)).epsilon(0.25));

  job.links = {{3, 4, 5e6, std::nullopt}};
  CHECK(SimProfile(job, 1).link(4, 3).bandwidth == 5e6);
  job.sim.links = "equal";
  CHECK(SimProfile(job, 1).link(7, 8).bandwidth == job.sim.bandwidth);
}

TEST_CASE("every peer sleeps its share of the day, at its own time") {
  const Job job = small_job({"peers=20", "sim.day=10", "sim.night=0.2"});
  const SimProfile profile(job, 3);
  std::set<double> wakings;
  for (PeerId p = 0; p < 20; ++p) {
    std::size_t asleep = 0;
    for (int tick = 0; tick < 1000; ++tick) {
      const double now = 0.1 * tick, until = profile.asleep_until(p, now);
      if (until == now) continue;
      ++asleep;
      CHECK(until > now);
      CHECK(until <= now + 2 + 1e-9);
      if (now > 10 && now < 20) wakings.insert(std::round(until * 1000));
    }
    CHECK(asleep == Approx(200).margin(11));
  }
  CHECK(wakings.size() >= 15);
}

TEST_CASE("heterogeneous machines, links and nights show in the time, not in what synchronous rounds learn") {
  for (const Settings& method : {Settings{}, Settings{"exchange.method=dpsgd", "exchange.codec=dense"}}) {
    const SimResult even = run_with(prepare(small_job(method)), 1),
                    heterogeneous = run_with(prepare(small_job(method + kUnlike)), 1);
    CHECK(heterogeneous.digest == even.digest);
    CHECK(heterogeneous.virtual_seconds > 2 * even.virtual_seconds);
    const SimFaults other_seed{9, {}};
    CHECK(run_with(prepare(small_job(method + kUnlike)), 1, other_seed).virtual_seconds !=
          heterogeneous.virtual_seconds);
  }
}

TEST_CASE("who slept itself does not take the others for lost") {
  // peer0 sleeps while peer1 wakes, and would wake after more than the silence time-out without a sign of it
  const Prepared prepared = prepare(
      small_job({"peers=2", "run.rounds=50", "sim.pause=[\"peer1@0.05s+2.4s\", \"peer0@1.5s+2.4s\"]"}));
  for (const auto& p : run_with(prepared, 1).peers) CHECK(p.outcome == Outcome::finished);
}

TEST_CASE("256 peers take seconds and each as much memory as its neighbours need") {
  for (const char* graph : {"ring", "one_peer_exponential", "base"}) {
    const Prepared prepared =
        prepare(small_job({"peers=256", "run.rounds=3", "exchange.method=dpsgd", "exchange.codec=dense",
                           std::string("graph.kind=") + graph}));
    const SimResult result = run_with(prepared, 2);
    INFO(graph);
    CHECK(std::all_of(result.peers.begin(), result.peers.end(),
                      [](const auto& p) { return p.outcome == Outcome::finished; }));
  }
}
