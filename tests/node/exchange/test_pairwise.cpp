// Averaging by pairs without a barrier: what is conserved, what it converges to, that it ends, how fast it
// is.
#include "frozen.h"
#include "gossamer_test/catch.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const Settings kUnbounded{"exchange.staleness=unbounded"};

Run& finish(Run& run) {
  run.go();
  REQUIRE(run.all(Outcome::finished));
  return run;
}

struct Network {
  const char* graph;
  std::size_t peers;
  Settings more;
};

const std::vector<Network>& networks() {
  const Settings far{"sim.latency=0.02", "sim.jitter=0.01"}, uneven{"sim.slow=[\"peer1=10\"]"},
      lossy{"sim.loss=0.05", "sim.reorder=0.1", "sim.duplicate=0.05"};
  static const std::vector<Network> all{{"ring", 2, {"sim.step_jitter=0"}},
                                        {"ring", 3, {"sim.step_jitter=0"}},
                                        {"ring", 5, far},
                                        {"ring", 7, uneven},
                                        {"star", 6, uneven},
                                        {"star", 6, lossy + far},
                                        {"full", 5, lossy},
                                        {"exponential", 6, far},
                                        {"one_peer_exponential", 8, {"sim.step_jitter=0"}}};
  return all;
}

}  // namespace

TEST_CASE("pairs keep the sum of the parameters and bring all peers together") {
  for (const auto& [graph, peers, more] : networks()) {
    INFO(graph << " of " << peers);
    StepsTaken steps;
    Run run(prepare(small_job(frozen(peers, "pairwise", graph, 1000, kUnbounded + more))), {}, &steps);
    Run alone(small_job(frozen(peers, "none", graph, 1000, more)));
    const double apart = consensus_distance(finish(alone).simulation, peers);
    CHECK(apart > 0.001);
    CHECK(consensus_distance(finish(run).simulation, peers) < 1e-9 * apart);
    CHECK(distance(sum_of(run.simulation, peers), kept_sum(run.prepared, peers, steps)) < 1e-4);
  }
}

TEST_CASE("one slow peer does not hold up pairs") {
  const auto run = [](const Settings& method) {
    return Settings{"peers=6", "run.rounds=200", "sim.slow=[\"peer2=10\"]", "exchange.codec=dense"} + method;
  };
  Run together(small_job(run({"exchange.method=dpsgd"}))),
      pairs(small_job(run(kUnbounded + Settings{"exchange.method=pairwise"})));
  finish(together);
  finish(pairs);
  const auto steps_per_second = [](const Run& r) {
    double sum = 0;
    for (const auto& p : r.result.peers) sum += static_cast<double>(p.rounds) / p.seconds;
    return sum;
  };
  CHECK(steps_per_second(pairs) >= 5 * steps_per_second(together));
  CHECK(pairs.result.peers[0].staleness_max > 0);
}

TEST_CASE("pairs reach the optimum of heterogeneous data under a falling rate") {
  const auto optimum = [] {
    Run run(
        small_job({"peers=6", "model.kind=quadratic", "data.rows=48", "optimizer.kind=sgd", "run.rounds=400",
                   "exchange.method=allreduce", "exchange.codec=dense", "graph.kind=full"}));
    return finish(run).parameters(0);
  }();
  for (const char* graph : {"ring", "star"}) {
    INFO(graph);
    Run run(small_job(Settings{"peers=6", "model.kind=quadratic", "data.rows=48", "optimizer.kind=sgd",
                               "optimizer.schedule=cosine", "run.rounds=3000", "exchange.method=pairwise",
                               "exchange.codec=dense", std::string("graph.kind=") + graph} +
                      kUnbounded));
    finish(run);
    for (PeerId p = 0; p < 6; ++p) CHECK(largest_difference(run.parameters(p), optimum) < 0.02);
  }
}

TEST_CASE("a peer that is done and gone is asked no more") {
  // Five peers are done and do not wait for the sixth, whose last step takes far longer.
  Run run(small_job(Settings{"peers=6", "run.rounds=90", "run.drain_timeout=0.1", "run.silence_timeout=1",
                             "sim.step_time=0.02", "sim.slow=[\"peer3=20\"]", "exchange.method=pairwise",
                             "exchange.codec=dense"} +
                    kUnbounded));
  finish(run);
  CHECK(run.result.peers[3].rounds < 10);
  CHECK(run.result.peers[3].seconds > run.result.peers[0].seconds + 0.1);
}

TEST_CASE("pairs with momentum learn as gossip in step does") {
  const auto loss = [](const Settings& method) {
    Run run(small_job(Settings{"peers=5", "run.rounds=300", "optimizer.kind=momentum",
                               "optimizer.learning_rate=0.02", "exchange.codec=dense"} +
                      method));
    finish(run);
    double sum = 0;
    for (const auto& p : run.result.peers) sum += p.train_loss;
    return sum / 5;
  };
  CHECK(loss(kUnbounded + Settings{"exchange.method=pairwise"}) <
        1.1 * loss({"exchange.method=dpsgd"}) + 0.01);
}
