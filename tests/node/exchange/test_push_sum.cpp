// Push-sum: mass conserved to the last bit under loss, the true mean on unbalanced directed graphs, and what
// plain averaging makes of the same network.
#include "frozen.h"
#include "gossamer_test/catch.h"
#include "sum_numbers.h"
#include "total_mass.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const Settings kLossy{"exchange.delivery=best_effort", "exchange.staleness=unbounded", "sim.loss=0.1",
                      "sim.reorder=0.1", "sim.duplicate=0.05"};
const Settings kUnbounded{"exchange.staleness=unbounded"};
/// Strongly connected, in- and out-degrees from 1 to 3, no column sum of 1.
const Settings kUnbalanced{
    "graph.weights=uniform",
    "graph.edges=[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,0],[0,3],[0,5],[2,6],[4,1],[5,1],[3,1]]"};

struct Network {
  const char* graph;
  std::size_t peers;
  Settings more;
};

const std::vector<Network>& networks() {
  static const std::vector<Network> all{{"ring", 6, {}},
                                        {"edges", 7, kUnbalanced},
                                        {"exponential", 6, {"sim.slow=[\"peer1=10\"]"}},
                                        {"star", 6, {"sim.slow=[\"peer1=10\"]"}},
                                        {"one_peer_exponential", 8, {"sim.latency=0.02"}}};
  return all;
}

std::uint64_t fixed(float v) {
  return static_cast<std::uint64_t>(std::llrint(static_cast<double>(v) * kMassOne));
}

/// What all peers hold together after their steps, in units.
std::vector<std::uint64_t> kept_mass(const Prepared& prepared, std::size_t peers, std::size_t parcels,
                                     const StepsTaken& steps) {
  std::vector<std::uint64_t> mass(prepared.initial.size());
  for (std::size_t k = 0; k < mass.size(); ++k)
    mass[k] = peers * fixed(prepared.initial[k]) - steps.units_of(k);
  mass.insert(mass.end(), parcels, peers * static_cast<std::uint64_t>(kMassOne));
  return mass;
}

Run& finish(Run& run) {
  run.go();
  REQUIRE(run.all(Outcome::finished));
  return run;
}

/// The farthest that a peer is from the mean, by a sum over all peers.
double off_the_mean(const Run& run, const std::vector<double>& sum, std::size_t peers) {
  double worst = 0;
  for (PeerId p = 0; p < peers; ++p)
    for (std::size_t k = 0; k < sum.size(); ++k)
      worst = std::max(worst, std::abs(static_cast<double>(run.simulation.parameters(p)[k]) -
                                       sum[k] / static_cast<double>(peers)));
  return worst;
}

}  // namespace

TEST_CASE("push-sum under loss conserves mass to the last bit and reaches the mean") {
  for (const auto& [graph, peers, more] : networks()) {
    INFO(graph);
    StepsTaken steps;
    Run run(prepare(small_job(frozen(peers, "push_sum", graph, 2000, kLossy + more))), {}, &steps);
    const std::size_t parcels = mass_sum(run.simulation, 0, 0).size() - run.prepared.initial.size();
    const auto all_kept = [&, n = peers] {
      const auto total = total_mass(run.simulation, *run.prepared.plan);  // all ops have run by then
      return total == kept_mass(run.prepared, n, parcels, steps);
    };
    std::size_t asked = 0, counted = 0, unequal = 0;
    run.result = run.simulation.run([&] {
      if (++asked % 50 != 0) return false;
      ++counted;
      unequal += !all_kept();
      return asked > Run::kMostQuestions;
    });
    CHECK(run.all(Outcome::finished));
    CHECK(counted > 20);
    CHECK(unequal == 0);
    CHECK(all_kept());
    CHECK(off_the_mean(run, kept_sum(run.prepared, peers, steps), peers) < 1e-4);
  }
}

TEST_CASE("plain averaging under the same loss drifts from the mean") {
  StepsTaken steps;
  Run run(prepare(small_job(frozen(6, "epidemic", "ring", 2000, kLossy))), {}, &steps);
  finish(run);
  CHECK(consensus_distance(run.simulation, 6) < 1e-6);
  CHECK(off_the_mean(run, kept_sum(run.prepared, 6, steps), 6) > 0.01);
}

TEST_CASE("push-sum in step reaches the true mean on unbalanced and time-varying directed graphs") {
  for (const auto& [graph, peers, more] : networks()) {
    INFO(graph);
    Run run(small_job(frozen(peers, "push_sum", graph, 300, more)));
    finish(run);
    CHECK(off_the_mean(run, first_sum(run.prepared), peers) < 1e-6);
    CHECK(run.result.peers[0].staleness_max == 0);
  }
}

TEST_CASE("push-sum on doubly stochastic weights in step is D-PSGD") {
  for (const Settings& graph : {Settings{"graph.kind=ring"}, Settings{"graph.kind=torus"},
                                Settings{"graph.kind=base", "graph.degree=1"}}) {
    INFO(graph[0]);
    const Settings job = graph + Settings{"peers=6", "exchange.codec=dense"};
    Run sums(small_job(job + Settings{"exchange.method=push_sum"})),
        plain(small_job(job + Settings{"exchange.method=dpsgd"}));
    finish(sums);
    finish(plain);
    for (PeerId p = 0; p < 6; ++p) CHECK(relative_difference(sums.parameters(p), plain.parameters(p)) < 1e-5);
  }
}

TEST_CASE("push-sum under loss reaches the optimum of heterogeneous data") {
  const auto job = [](const std::string& method, const std::string& graph, const Settings& more) {
    return small_job(Settings{"peers=7", "model.kind=quadratic", "data.rows=56", "optimizer.kind=sgd",
                              "exchange.codec=dense", "exchange.method=" + method, "graph.kind=" + graph} +
                     more);
  };
  Run exact(job("allreduce", "full", {"run.rounds=400"}));
  const auto optimum = finish(exact).parameters(0);
  const Settings falling{"run.rounds=3000", "optimizer.schedule=cosine"};
  for (const auto& graph : {Settings{"ring"}, Settings{"edges"} + kUnbalanced}) {
    INFO(graph[0]);
    const Settings more(graph.begin() + 1, graph.end());
    for (const auto& network : {kLossy, Settings{}}) {
      Run run(job("push_sum", graph[0], falling + network + more));
      finish(run);
      // Without waiting, weights that differ while the rate is high leave a distance that goes with the rate.
      const double near = network.empty() ? 0.02 : 0.1;
      for (PeerId p = 0; p < 7; ++p) CHECK(largest_difference(run.parameters(p), optimum) < near);
    }
  }
}

TEST_CASE("a peer of push-sum that does not wait keeps a quarter of a weight") {
  Run run(small_job({"peers=6", "exchange.method=push_sum", "exchange.codec=dense", "run.rounds=300",
                     "exchange.staleness=unbounded", "sim.slow=[\"peer1=10\", \"peer4=5\"]"}));
  const std::size_t n = run.prepared.initial.size();
  std::uint64_t least = UINT64_MAX;
  run.result = run.simulation.run([&] {
    for (PeerId p = 0; p < 6; ++p)
      for (const std::uint64_t w : mass_sum(run.simulation, p, 0).subspan(n)) least = std::min(least, w);
    return false;
  });
  CHECK(run.all(Outcome::finished));
  CHECK(least + 16 >= static_cast<std::uint64_t>(kMassOne) / 4);
  CHECK(least < static_cast<std::uint64_t>(kMassOne));
}

TEST_CASE("push-sum with bounded staleness leaves no neighbour waiting") {
  const Settings shuffled{"peers=7",
                          "graph.kind=full",
                          "exchange.method=push_sum",
                          "exchange.codec=dense",
                          "exchange.staleness=3",
                          "run.rounds=40",
                          "sim.step_time=0.0005",
                          "sim.latency=0.01",
                          "sim.jitter=0.003",
                          "sim.reorder=0.5"};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Run run(small_job(shuffled), {.seed = seed, .crashes = {}});
    finish(run);
  }
}

/// Of one neighbour: what it is sent, and what it is taken from.
const std::vector<MassSum> kTwo{{1, true}, {1, false}};

TEST_CASE("sums of another length are refused") {
  Mass mass(std::vector<float>{1, 2, 3, 4}, 1, kTwo);
  const op::Push push{{0, 4}, 0, 0, {{1, 0.5f}}, 0};
  std::vector<float> step(4, 0.25f), infinite(4, INFINITY);
  mass.push(push, step);
  CHECK(mass.sum(0)[3] + mass.sum(1)[3] == fixed(3.75f));
  const Payload sent = mass.payload(1, {0, 4}, 0);
  CHECK(sent->size() == 40);
  mass.absorb({{0, 4}, 0, 2, sent});
  CHECK(mass.sum(0)[3] == fixed(3.75f));
  mass.absorb({{0, 4}, 0, 2, sent});  // the same again adds nothing
  CHECK(mass.sum(0)[3] == fixed(3.75f));
  CHECK_THROWS_AS(mass.absorb({{0, 3}, 0, 2, sent}), std::runtime_error);
  CHECK_THROWS_AS(mass.push(push, infinite), std::runtime_error);
}

TEST_CASE("more mass than 2^23 times one is refused, not wrapped") {
  const float large = 4e6f;  // what a peer may begin with is below 2^22
  Mass giver(std::vector<float>{large}, 1, kTwo), taker(std::vector<float>{large}, 1, kTwo);
  std::vector<float> nothing{0}, more{-4e6f};
  giver.push({{0, 1}, 0, 0, {{1, 0.9f}}, 0}, nothing);
  const Payload sent = giver.payload(1, {0, 1}, 0);
  taker.absorb({{0, 1}, 0, 2, sent});  // 7.6e6
  std::vector<float> z(1);
  taker.ratio({{0, 1}, 0}, z);
  CHECK(z[0] == Approx(4e6));
  Mass again = taker;
  CHECK_THROWS_AS(taker.push({{0, 1}, 0, 0, {}, 0}, more), std::runtime_error);
  Mass second(std::vector<float>{large}, 1, kTwo);
  second.push({{0, 1}, 0, 0, {{1, 0.9f}}, 0}, nothing);
  CHECK_THROWS_AS(again.absorb({{0, 1}, 0, 1, second.payload(1, {0, 1}, 0)}), std::runtime_error);
  std::vector<float> back{4e6f};
  Mass negative(std::vector<float>{-large}, 1, {});
  negative.push({{0, 1}, 0, 0, {}, 0}, back);
  CHECK_THROWS_AS(negative.push({{0, 1}, 0, 0, {}, 0}, back), std::runtime_error);
}

TEST_CASE(
    "where nobody waits, a step is of one size whatever the weight, and counts in full in the long run") {
  constexpr float kStep = 0.25f;
  Mass mass(std::vector<float>{1}, 1, kTwo);
  const op::Push keep{{0, 1}, 0, 0, {}, 0.1f}, give{{0, 1}, 0, 0, {{1, 0.5f}}, 0.1f};
  std::vector<float> nothing{0}, z(1);
  const auto moved_by_a_step = [&] {
    mass.ratio({{0, 1}, 0}, z);
    const float before = z[0];
    std::vector<float> step{kStep};
    mass.push(keep, step);
    mass.ratio({{0, 1}, 0}, z);
    return before - z[0];
  };
  CHECK(moved_by_a_step() == kStep);  // the weight is 1 as ever
  mass.push(give, nothing);
  mass.push(give, nothing);
  CHECK(moved_by_a_step() == Approx(kStep).epsilon(0.02));  // not four times as much, with a weight of 1/4
  for (int round = 0; round < 1000; ++round) mass.push(keep, nothing);
  CHECK(moved_by_a_step() == Approx(4 * kStep).epsilon(0.001));  // as with 1/4 since ever: u / w
}
