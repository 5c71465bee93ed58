// A view begins with parameters that have moved on from x⁰ and differ from peer to peer: how soon its peers
// come together, and where.
#include <fmt/format.h>

#include <random>

#include "archive.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "view_run.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

using Vectors = std::vector<std::vector<double>>;

/// Parameters `way` an entry from x⁰, and `size` from each other.
std::vector<State> moved_states(const Prepared& p, double way, double size) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  AlignedFloats common(p.initial.begin(), p.initial.end());
  const auto add = [&](AlignedFloats& x, double factor) {
    for (const optim::Layer& l : p.layers)
      for (std::size_t k = l.offset; k < l.offset + l.size; ++k)
        x[k] += static_cast<float>(factor) * normal(random);
  };
  add(common, way);
  std::vector<State> states;
  for (PeerId i = 0; i < p.job.peers.size(); ++i) {
    State state = make_replica(p, i, make_objective(p, i)).save();
    AlignedFloats x = common;
    add(x, size);
    Archive::saving(state).part("data").floats("slot0", std::span<float>(x));
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<double> mean_of(const Vectors& x) {
  std::vector<double> mean(x[0].size());
  for (const auto& v : x)
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += v[k] / static_cast<double>(x.size());
  return mean;
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum);
}
/// The root of P times the consensus distance.
double spread(const Vectors& x) {
  const std::vector<double> mean = mean_of(x);
  double sum = 0;
  for (const auto& v : x) sum += std::pow(distance(v, mean), 2);
  return std::sqrt(sum);
}

struct Left {
  double apart;     ///< as a share of what it was at first
  double moved;     ///< the mean, as a share of its way from x⁰ at first
  double absolute;  ///< apart, as it is
};

Left left_after(const Prepared& prepared, std::size_t rounds, double size = 0.1) {
  Prepared p = prepared;
  p.rounds = rounds;
  if (p.total_samples > 0) p.total_samples = static_cast<double>(rounds * p.job.peers.size() * p.job.batch);
  const std::vector<State> states = moved_states(p, 1, size);
  Vectors before, after;
  for (const State& s : states) {
    const auto x = parameters_in(s);
    before.emplace_back(x.begin(), x.end());
  }
  Simulation simulation(p, {});
  simulation.restore_learned(states);
  for (const auto& peer : simulation.run().peers) {
    INFO(peer.message);
    CHECK(peer.outcome == Outcome::finished);
  }
  for (PeerId i = 0; i < states.size(); ++i) {
    const auto x = simulation.parameters(i);
    after.emplace_back(x.begin(), x.end());
  }
  const std::vector<double> x0(p.initial.begin(), p.initial.end());
  return {spread(after) / spread(before),
          distance(mean_of(after), mean_of(before)) / distance(mean_of(before), x0), spread(after)};
}

/// Five of eight peers that learn next to nothing.
Prepared view_of(std::string_view method, std::string_view graph, std::string_view codec,
                 const Settings& more = {}, bool keyframes = true) {
  const Prepared base = prepare(
      small_job(Settings{"peers=8", "model.kind=quadratic", "data.features=200", "data.rows=64",
                         "optimizer.kind=sgd", "optimizer.learning_rate=1e-30",
                         fmt::format("graph.kind={}", graph), fmt::format("exchange.method={}", method),
                         fmt::format("exchange.codec={}", codec), "run.rounds=1000"} +
                more));
  return *run_of_view(base, {"peer0", "peer2", "peer3", "peer5", "peer6"}, keyframes).prepared;
}

constexpr double kRounding = 1e-5;

}  // namespace

TEST_CASE("peers come together as fast as their matrix says, at the mean that they have") {
  for (const char* graph : {"ring", "full", "star"}) {
    INFO(graph);
    std::vector<double> dpsgd;
    for (const std::size_t rounds : {1, 2, 5})
      dpsgd.push_back(left_after(view_of("dpsgd", graph, "dense"), rounds).apart);
    for (const auto& [method, more] :
         std::vector<std::pair<std::string, Settings>>{{"dpsgd", {"exchange.overlap=true"}},
                                                       {"epidemic", {}},
                                                       {"local_sgd", {"exchange.local_steps=1"}},
                                                       {"choco", {}},
                                                       {"deep_squeeze", {"exchange.gamma=1"}},
                                                       {"gradient_tracking", {}}}) {
      INFO(method);
      const Prepared view = view_of(method, graph, "dense", more);
      for (std::size_t n = 0; n < dpsgd.size(); ++n) {
        const Left left = left_after(view, std::array{1, 2, 5}[n]);
        CHECK(std::abs(left.apart - dpsgd[n]) < 1e-4);
        CHECK(left.moved < kRounding);
      }
    }
    const Left diffusion = left_after(view_of("exact_diffusion", graph, "dense"), 60);  // by (I + W)/2, twice
    CHECK(diffusion.apart < 0.1);
    CHECK(diffusion.moved < kRounding);
  }
  const Left relayed = left_after(view_of("relay_sum", "tree", "dense"), 20);
  CHECK(relayed.apart < 3e-3);
  CHECK(relayed.moved < 0.02);  // who is heard sooner counts for more
}

TEST_CASE("after one dense round choco's estimates are where its peers are") {
  for (const char* graph : {"ring", "full"})
    for (const char* codec : {"onebit_scaled", "topk:density=0.05", "qsgd:bits=4"}) {
      INFO(graph << " " << codec);
      const Prepared view = view_of("choco", graph, codec);
      CHECK(view.plan->exchange.dense_rounds == 1);
      const Prepared exact = view_of("choco", graph, "dense");
      const Left first = left_after(view, 1), dense = left_after(exact, 1);
      CHECK(std::abs(first.apart - dense.apart) < 1e-4);
      CHECK(left_after(view, 100).apart < 4e-3);
      CHECK(left_after(view, 100).moved < kRounding);
      // else the first messages code the way from x⁰, ten times what peers differ by
      const Prepared without = view_of("choco", graph, codec, {}, false);
      CHECK(left_after(without, 5).apart > 1.05 * left_after(view, 5).apart);
    }
  // where nobody waits, a neighbour that was not heard is left out (fair_part)
  for (const char* codec : {"dense", "onebit_scaled"}) {
    const Prepared view = view_of("choco", "ring", codec, {"exchange.staleness=unbounded"});
    CHECK(left_after(view, 100).apart < 1e-3);
    CHECK(left_after(view, 100).moved < 0.02);
  }
}

TEST_CASE("deep_squeeze's codes err by the parameters' size, however far apart peers begin") {
  for (const char* codec : {"onebit_scaled", "topk:density=0.05"}) {
    INFO(codec);
    const Prepared view = view_of("deep_squeeze", "ring", codec);
    const Left near = left_after(view, 300), far = left_after(view, 300, 1);
    CHECK(near.absolute < 1.5 * far.absolute);
    CHECK(far.absolute < 1.5 * near.absolute);
    CHECK(near.moved < kRounding);
  }
}

TEST_CASE("moniqua comes together once its bound is doubled past what peers differ by") {
  const Prepared view = view_of("moniqua", "ring", "dense");
  CHECK(left_after(view, 5).apart < 0.05);
  CHECK(left_after(view, 5).moved < kRounding);
  CHECK(left_after(view, 20, 1).apart > 0.99);  // a doubling takes P + 2 rounds
  CHECK(left_after(view, 100, 1).apart < 0.03);
  CHECK(left_after(view, 100, 1).moved < kRounding);
}

TEST_CASE("what methods keep beside parameters begins where the parameters are") {
  for (const auto& [method, graph, more] : std::vector<std::tuple<const char*, const char*, Settings>>{
           {"push_sum", "ring", {}},
           {"pairwise", "ring", {"exchange.staleness=unbounded"}},
           {"diloco", "ring", {}},
           {"noloco", "ring", {}},
           {"choco", "ring", {"exchange.staleness=2"}}}) {
    INFO(method << " " << graph);
    const Left left = left_after(view_of(method, graph, "dense", more), 600);
    CHECK(left.moved < 0.05);
    CHECK(left.apart < 0.1);
  }
}

TEST_CASE("where all peers must be alike nothing else draws them together") {
  // gradients are exchanged there, or what changed since the last exchange
  for (const char* method : {"allreduce", "broadcast", "topk_allgather", "diloco", "sparse_loco"}) {
    INFO(method);
    const bool sparse = std::string_view(method) == "sparse_loco";
    CHECK(left_after(view_of(method, "full", sparse ? "topk:density=0.05" : "dense"), 20).apart > 0.99);
    CHECK(begins_alike(find_method(method)));
  }
}
