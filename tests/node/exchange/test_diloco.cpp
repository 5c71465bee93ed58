// Outer steps every H rounds, against the same formula written plainly over all peers at once.
#include "gossamer_test/catch.h"
#include "plain_outer.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr Slot kOuter = 2, kMomentum = 3;

Settings diloco(const std::string& graph, const Settings& more = {}) {
  return Settings{"exchange.method=diloco", "exchange.codec=dense", "graph.kind=" + graph,
                  "exchange.local_steps=4", "run.rounds=33"} +
         more;
}

/// Outer parameters are averaged after the outer step.
class PlainDiloco final : public PlainOuter {
 public:
  explicit PlainDiloco(const Prepared& prepared)
      : PlainOuter(prepared), momentum_(zeros()), stepped_(outer_) {}

 private:
  void begin(ParcelId p, Round) override {
    const double rate = section_.outer_rate.value_or(0.7), decay = section_.outer_momentum.value_or(0.9);
    for_entries(p, [&](std::size_t i, std::size_t k) {
      const double difference = static_cast<double>(outer_[i][k]) - static_cast<double>(peers_.x[i][k]);
      momentum_[i][k] = static_cast<float>(decay * static_cast<double>(momentum_[i][k]) + difference);
      const double step = difference + decay * static_cast<double>(momentum_[i][k]);
      stepped_[i][k] = static_cast<float>(static_cast<double>(outer_[i][k]) - rate * step);
    });
  }
  void end(ParcelId p, const std::vector<double>& w) override {
    const std::vector<double> half = at_least_half(w);
    for_entries(p, [&](std::size_t i, std::size_t k) {
      outer_[i][k] = static_cast<float>(mean(half, stepped_, i, k));
    });
  }
  /// I − s(I − W) with the largest s ≤ 1 by which every peer keeps half of its own; one mean for all stays.
  std::vector<double> at_least_half(std::vector<double> w) const {
    if (one_mean(schedule_)) return w;
    double least = 1;
    for (std::size_t i = 0; i < count(); ++i) least = std::min(least, w[i * count() + i]);
    const double s = std::min(1.0, 0.5 / (1 - least));
    for (std::size_t i = 0; i < count(); ++i)
      for (std::size_t j = 0; j < count(); ++j) {
        double& entry = w[i * count() + j];
        entry = s * entry + (i == j ? 1 - s : 0);
      }
    return w;
  }
  Vectors momentum_, stepped_;
};

void check_formula(const Settings& settings) {
  INFO(settings.back() << " " << settings[2]);
  CHECK(is_formula<PlainDiloco>(settings));
}

}  // namespace

TEST_CASE("diloco is its formula on full and gossip graphs, streamed and overlapped") {
  for (const char* graph : {"full", "ring", "star", "one_peer_exponential", "matching"}) {
    check_formula(diloco(graph));
    check_formula(diloco(graph, {"exchange.outer_delay=3"}));
    check_formula(diloco(
        graph, streamed() + Settings{"peers=5", "optimizer.kind=momentum", "optimizer.learning_rate=0.02"}));
  }
  check_formula(diloco("full", streamed() + Settings{"optimizer.kind=adam", "optimizer.learning_rate=0.01"}));
  check_formula(diloco("ring", {"exchange.outer_rate=1", "exchange.outer_momentum=0"}));
}

TEST_CASE("an outer step every round of one peer is Nesterov's") {
  const Settings one{"peers=1", "graph.kind=full", "optimizer.kind=sgd", "optimizer.learning_rate=0.1"};
  Run outer(small_job(diloco("full", one + Settings{"exchange.local_steps=1", "exchange.outer_rate=0.5",
                                                    "exchange.outer_momentum=0.8"})));
  Run inner(small_job(one + Settings{"exchange.method=none", "optimizer.kind=nesterov", "run.rounds=33",
                                     "optimizer.momentum=0.8", "optimizer.learning_rate=0.05"}));
  outer.go();
  inner.go();
  CHECK(largest_difference(outer.simulation.parameters(0), inner.simulation.parameters(0)) < 1e-5);
}

TEST_CASE("on a full graph all peers' outer parameters are the same bits") {
  for (const char* codec : {"dense", "qsgd:bits=4", "qsgd:bits=2", "topk:density=0.1", "onebit_scaled"})
    for (const Settings& more : {Settings{}, streamed(), Settings{"exchange.aggregate=samples"}}) {
      const Settings settings =
          diloco("full", more + Settings{"peers=3", std::string("exchange.codec=") + codec});
      Run run(with_batches(small_job(settings), {8, 5, 11}));
      REQUIRE(run.go().all(Outcome::finished));
      INFO(codec);
      for (PeerId p = 1; p < 3; ++p) {
        CHECK(Run::same_bits(run.simulation.slot(p, kOuter), run.simulation.slot(0, kOuter)));
        CHECK(Run::same_bits(run.simulation.slot(p, kMomentum), run.simulation.slot(0, kMomentum)));
      }
      CHECK_FALSE(run.peers_identical());  // a round is open
    }
  Run closed(small_job(diloco("full", {"exchange.codec=qsgd:bits=4", "run.rounds=32"})));
  CHECK(closed.go().peers_identical());
}

TEST_CASE("what the network does to frames changes no bit of diloco") {
  const Settings faults{"sim.loss=0.1", "sim.duplicate=0.1", "sim.reorder=0.2", "sim.jitter=0.004"};
  for (const char* graph : {"full", "matching"}) {
    const Settings settings = diloco(graph, streamed());
    CHECK(digest_of(small_job(settings)) == digest_of(small_job(settings + faults), {7, {}}));
  }
}

TEST_CASE("diloco sends as many times less as there are local steps, and a codec's bits of that") {
  const auto bytes = [](const Settings& settings) {
    Run run(small_job(settings + Settings{"run.rounds=64", "data.features=200"}));
    run.go();
    return static_cast<double>(run.result.peers[0].traffic.data_bytes_out);
  };
  const double every = bytes(diloco("full", {"exchange.local_steps=1"}));
  CHECK(bytes(diloco("full", {"exchange.local_steps=8"})) == Approx(every / 8).epsilon(0.01));
  CHECK(bytes(diloco("full", {"exchange.local_steps=8", "exchange.codec=qsgd:bits=4"})) < every / 8 / 5);
  CHECK(
      bytes(diloco("ring", {"exchange.local_steps=8"})) ==
      Approx(bytes({"graph.kind=ring", "exchange.method=dpsgd", "exchange.codec=dense"}) / 8).epsilon(0.01));
}

TEST_CASE("fragments are of about equal size, each at its own offset, once in local_steps rounds") {
  std::vector<Parcel> parcels;
  for (std::size_t p = 0; p < 24; ++p) parcels.push_back({p, {64 * p, 64}});
  for (const auto& [steps, count] : {std::pair{12U, 4U}, {10U, 3U}, {7U, 7U}, {16U, 1U}}) {
    const Fragments fragments(steps, count, parcels);
    std::vector<Round> next(parcels.size(), 0);
    for (Round t = 0; t < 5 * steps; ++t) {
      std::size_t entries = 0;
      for (ParcelId p = 0; p < parcels.size(); ++p)
        if (const auto number = fragments.exchange(t, p)) {
          CHECK(*number == next[p]++);
          entries += parcels[p].range.size;
        }
      CHECK(entries <= 64 * (24 / count + 1));
    }
    for (const Round n : next) CHECK(n == 5);
  }
}

TEST_CASE("with a delay slow links cost diloco nothing") {
  const auto seconds = [](const char* delay) {
    Job job = small_job(diloco("full", {"exchange.local_steps=16", "run.rounds=160", "sim.latency=0.04",
                                        std::string("exchange.outer_delay=") + delay}));
    Run run(job);
    run.go();
    return run.result.peers[0].seconds;
  };
  const double alone = 160 * 0.005;
  CHECK(seconds("0") > alone + 9 * 0.04);
  CHECK(seconds("12") < alone * 1.05);
}
