// Runs in which nobody waits: the samples of all peers say how far the run is, set the rates and end it.
#include <numeric>

#include "frozen.h"
#include "gossamer_test/catch.h"
#include "summary.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const Settings kUnbounded{"exchange.staleness=unbounded"};

/// Peers with a few rows each, all of which every step sees, one peer of half the others' speed.
Settings apart(const std::string& method, const Settings& more) {
  return Settings{"peers=5",
                  "model.kind=quadratic",
                  "data.rows=10",
                  "optimizer.batch=2",
                  "optimizer.kind=sgd",
                  "exchange.method=" + method,
                  "exchange.codec=dense",
                  "run.rounds=4000",
                  "sim.slow=[\"peer1=2\"]"} +
         kUnbounded + more;
}

std::vector<double> mean_of_rows(const Prepared& prepared, PeerId peer) {
  PlainPeers plain(prepared);
  const optim::Dataset& data = *prepared.data.train;
  std::vector<double> mean(data.features(), 0);
  std::vector<float> row(data.features());
  const auto rows = plain.rows_of(peer, 0);
  for (const std::uint32_t r : rows) {
    data.gather(std::span(&r, 1), row);
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += static_cast<double>(row[k]) / static_cast<double>(rows.size());
  }
  return mean;
}

double norm(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// ‖x̄ − x*‖ / ‖x⁰ − x*‖, with x* the minimum of Σ wᵢfᵢ.
template <class Weight>
double distance_left(const Run& run, const Weight& weight_of) {
  const std::size_t n = run.prepared.data.train->features(), peers = run.result.peers.size();
  std::vector<double> now(n, 0), start(n, 0);
  double all = 0;
  for (PeerId p = 0; p < peers; ++p) all += weight_of(p);
  for (PeerId p = 0; p < peers; ++p) {
    const auto best = mean_of_rows(run.prepared, p);
    const auto x = run.simulation.parameters(p);
    for (std::size_t k = 0; k < n; ++k) {
      now[k] += static_cast<double>(x[k]) / static_cast<double>(peers) - best[k] * weight_of(p) / all;
      start[k] += static_cast<double>(run.prepared.initial[k]) / static_cast<double>(peers) -
                  best[k] * weight_of(p) / all;
    }
  }
  return norm(now) / norm(start);
}

double samples_of(const Run& run) {
  double all = 0;
  for (const auto& p : run.result.peers) all += static_cast<double>(p.rows);
  return all;
}

Run& finish(Run& run) {
  run.go();
  REQUIRE(run.all(Outcome::finished));
  return run;
}

}  // namespace

TEST_CASE("a slow peer pulls nothing to itself") {
  for (const std::string method : {"dpsgd", "choco", "pairwise", "push_sum"})
    for (const auto& [schedule, rate] :
         {std::pair{std::string("constant"), "0.02"}, std::pair{std::string("cosine"), "0.1"}}) {
      Run run(small_job(
          apart(method, {"optimizer.schedule=" + schedule, std::string("optimizer.learning_rate=") + rate})));
      finish(run);
      const auto steps = [&](PeerId p) { return static_cast<double>(run.result.peers[p].rounds); };
      const double alike = distance_left(run, [](PeerId) { return 1.0; });
      INFO(method << ", " << schedule << "; from the optimum of equal weights " << alike);
      CHECK(distance_left(run, steps) <= 0.01);
      CHECK(consensus_distance(run.simulation, 5) < 0.01);
      CHECK(steps(0) > 1.9 * steps(1));
      CHECK(samples_of(run) >= run.prepared.total_samples);
      CHECK(samples_of(run) <= 1.01 * run.prepared.total_samples);
    }
}

TEST_CASE("one slow peer costs heterogeneous peers no accuracy") {
  const auto accuracy = [](const std::string& method, const Settings& more) {
    Run run(small_job(Settings{"peers=5", "data.rows=4000", "data.test_rows=4000", "data.classes=10",
                               "data.features=20", "data.separation=1", "data.split=dirichlet:0.1",
                               "optimizer.schedule=cosine", "run.rounds=600", "exchange.codec=dense",
                               "exchange.method=" + method} +
                      kUnbounded + more));
    finish(run);
    std::vector<std::span<const float>> models;
    for (PeerId p = 0; p < 5; ++p) models.push_back(run.simulation.parameters(p));
    return summarise(run.prepared, run.result.peers, models, false).test_accuracy;
  };
  for (const std::string method : {"dpsgd", "choco", "pairwise", "push_sum"}) {
    const double alike = accuracy(method, {}), slow = accuracy(method, {"sim.slow=[\"peer1=2\"]"});
    INFO(method << ": " << alike << " without, " << slow << " with a slow peer");
    CHECK(slow >= alike - 0.003);
  }
}

TEST_CASE("on a ring of many peers all hear of the others a few rounds late") {
  Run run(small_job(Settings{"peers=64", "model.kind=quadratic", "exchange.method=dpsgd",
                             "exchange.codec=dense", "run.rounds=200"} +
                    kUnbounded));
  finish(run);
  const double over = samples_of(run) / run.prepared.total_samples - 1;
  CHECK(over >= 0);
  CHECK(over < 0.05);  // news passes four peers in a round, and is for 16 of them under way on the average
}

TEST_CASE("reports tell of the run, not of the peer's rounds") {
  for (const std::string slow : {"peer0=8", "peer2=8"}) {
    Job job = small_job({"exchange.method=pairwise", "exchange.codec=dense", "exchange.staleness=unbounded",
                         "run.rounds=0", "run.epochs=6", "run.evaluate_every=1", "run.report_every=0.000001",
                         "sim.slow=[\"" + slow + "\"]"});
    Run run(job);
    std::vector<double> tested, last(4, 0);
    run.simulation.on_report = [&](PeerId p, double, const Report& r) {
      CHECK(r.epoch >= last[p]);
      CHECK(r.share_done == Approx(r.epoch / 6));
      last[p] = r.epoch;
      if (r.test) tested.push_back(r.epoch);
    };
    finish(run);
    INFO(slow);
    for (const double epoch : last) CHECK(epoch == 6);
    REQUIRE(tested.size() == 5);
    for (std::size_t e = 0; e < 5; ++e) {
      CHECK(tested[e] >= static_cast<double>(e + 1));
      CHECK(tested[e] < static_cast<double>(e + 2));
    }
  }
}

TEST_CASE("only where nobody waits do samples end the run, and all must know how") {
  const auto prepared = [](const Settings& more) {
    return prepare(
        small_job(Settings{"exchange.codec=dense", "exchange.method=dpsgd", "graph.kind=full"} + more));
  };
  const Settings bounded{"exchange.staleness=4"}, partial{"exchange.backup=1"};
  for (const Settings& waits : {Settings{}, bounded, partial, partial + kUnbounded}) {
    const Prepared p = prepared(waits);
    CHECK(p.total_samples == 0);
  }
  const Prepared p = prepared(kUnbounded + Settings{"peers=3", "optimizer.batch=4", "run.rounds=7"});
  CHECK(p.total_samples == 84);
}
