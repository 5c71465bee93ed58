// Rows of tables that peers learn together: over any graph as one process would, exactly or with what changed
// enough; saved and restored.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "gossamer/optim/click_objective.h"
#include "gossamer_test/catch.h"
#include "routes.h"
#include "row_exchange.h"
#include "sim_job.h"
#include "view_observer.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

using Weights = std::map<std::uint64_t, std::vector<float>>;

Weights weights_of(const optim::Table& table) {
  Weights all;
  table.visit([&](const optim::TableRow& row) {
    all.emplace(row.key, std::vector<float>(row.weights.begin(), row.weights.end()));
  });
  return all;
}
Weights weights_of(const Simulation& simulation, PeerId peer) {
  return weights_of(simulation.objective(peer).keyed_rows()->table());
}

double distance(const Weights& a, const Weights& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (const auto& [key, row] : a) {
    const auto other = b.find(key);
    if (other == b.end()) return INFINITY;
    for (std::size_t k = 0; k < row.size(); ++k)
      most = std::max(most, std::abs(static_cast<double>(row[k]) - other->second[k]));
  }
  return most;
}

/// Planted clicks; dense settings of the small job give way.
Job click_job(const Settings& settings) {
  return small_job(Settings{"model.kind=lr", "data.format=planted", "data.rows=4000", "data.test_rows=400",
                            "data.keys=50", "data.fields=4", "optimizer.batch=8", "exchange.codec=dense",
                            "exchange.method=dpsgd", "run.rounds=100"} +
                   settings);
}
const Settings kExact{"table.codec=dense", "table.density=1"};

/// Takes the next samples of each share in turn, as peers together do.
class Together final : public optim::SampleStream {
 public:
  Together(std::vector<std::unique_ptr<optim::SampleStream>> shares, std::size_t batch)
      : shares_(std::move(shares)), batch_(batch) {}
  bool next(std::size_t, bool bias, optim::SparseBatch& batch) override {
    batch.clear(bias);
    optim::SparseBatch part;
    for (auto& share : shares_) {
      if (!share->next(batch_, bias, part)) return false;
      for (std::size_t s = 0; s < part.size(); ++s) {
        const std::size_t begin = part.begins()[s], count = part.begins()[s + 1] - begin;
        std::vector<std::uint64_t> keys;
        for (std::size_t e = begin; e < begin + count; ++e) keys.push_back(part.keys()[part.index()[e]]);
        batch.add({keys, part.fields().subspan(begin, count), part.values().subspan(begin, count),
                   part.labels()[s], part.hashes()[s], part.positions()[s]});
      }
    }
    return batch.size() > 0;
  }
  optim::StreamCounters counters() const override { return {}; }
  void share_anew(const optim::SampleStreamSpec&) override {}

 private:
  std::vector<std::unique_ptr<optim::SampleStream>> shares_;
  std::size_t batch_;
};

/// One process that learns in each step from what the peers' steps learn from.
struct Alone {
  std::unique_ptr<optim::ClickObjective> objective;
  std::vector<float> x;

  Alone(const Job& job, std::size_t steps) {
    optim::ClickParts parts = click_parts(job, {}, 0, 0);
    parts.train = [&job](std::uint64_t) -> std::unique_ptr<optim::SampleStream> {
      std::vector<std::unique_ptr<optim::SampleStream>> shares;
      for (std::size_t p = 0; p < job.peers.size(); ++p)
        shares.push_back(click_parts(job, {}, p, 0).train(0));
      return std::make_unique<Together>(std::move(shares), job.batch);
    };
    parts.batch = job.batch * job.peers.size();
    objective = optim::make_click_objective(std::move(parts));
    AlignedFloats parameters(objective->buffer_size()), gradient(objective->buffer_size());
    objective->initialise(job.run.seed, parameters);
    for (std::uint64_t step = 0; step < steps; ++step) {
      objective->gradient(parameters, {.step = step}, gradient, [](std::size_t) {});
      for (std::size_t i = 0; i < gradient.size(); ++i)
        parameters[i] -= static_cast<float>(job.optimizer.learning_rate) * gradient[i];
    }
    x.assign(parameters.begin(), parameters.end());
  }
};

/// How many bytes of others' messages a peer's data plane was given from one of its gradients to the next.
struct Given final : Observer {
  explicit Given(PeerId of) : peer(of) {}
  void on_gradient(PeerId p, const Gradient&) override {
    if (p == peer) since = 0;
  }
  void on_op(PeerId p, const Op& op, const DataView&) override {
    const auto* push = std::get_if<op::PushRows>(&op);
    if (p != peer || !push) return;
    for (const auto& [from, payload] : push->received) since += payload->size();
    most = std::max(most, since);
  }
  PeerId peer;
  std::size_t since = 0, most = 0;
};

/// What peers have not told, by the members of the view.
struct Untold final : ViewObserver {
  struct InView final : Observer {
    void on_op(PeerId p, const Op& op, const DataView& after) override {
      if (!std::holds_alternative<op::EncodeRows>(op)) return;
      of[p].clear();
      after.rows()->sender().visit([&](std::uint64_t key, std::span<const float> e) {
        of[p].emplace(key, std::vector<float>(e.begin(), e.end()));
      });
    }
    std::map<PeerId, Weights> of;
  };
  Observer* on_enter(PeerId, const Entry& entry) override { return &views[entry.view.seats.size()]; }
  std::map<std::size_t, InView> views;
};

}  // namespace

TEST_CASE("Peers that tell all of their rows learn what one process learns, over any graph") {
  for (const char* peers : {"peers=2", "peers=4"})
    for (const char* graph : {"full", "ring", "star", "tree"})
      for (const Settings& model : std::vector<Settings>{
               {"model.kind=lr"},
               {"model.kind=fm", "model.factors=3", "table.optimizer=adagrad"},
               {"model.kind=ffm", "model.factors=2", "table.optimizer=sgd"},
               {"model.kind=fm", "model.factors=2", "table.optimizer=adam", "table.learning_rate=0.01"}}) {
        const Job job = click_job(Settings{peers, std::string("graph.kind=") + graph} + kExact + model);
        INFO(peers << " " << graph << " " << job.model.kind << " " << job.sparse.table.optimizer);
        const Prepared prepared = prepare(job);
        Simulation simulation(prepared, {});
        for (const auto& result : simulation.run().peers) REQUIRE(result.outcome == Outcome::finished);
        const Alone alone(job, 100);
        const Weights first = weights_of(simulation, 0);
        CHECK(first.size() > 20);
        CHECK(distance(first, weights_of(alone.objective->table())) < 1e-6);
        for (PeerId p = 1; p < job.peers.size(); ++p) CHECK(distance(first, weights_of(simulation, p)) == 0);
      }
}

TEST_CASE("Rows and dense parts together learn what one process learns") {
  for (const char* kind : {"dnn", "wide_deep", "deepfm"}) {
    const Job job = click_job(Settings{std::string("model.kind=") + kind, "model.factors=3",
                                       "graph.kind=full", "exchange.method=allreduce", "optimizer.kind=sgd",
                                       "optimizer.learning_rate=0.05"} +
                              kExact);
    INFO(kind);
    const Prepared prepared = prepare(job);
    Simulation simulation(prepared, {});
    simulation.run();
    const Alone alone(job, 100);
    CHECK(distance(weights_of(simulation, 0), weights_of(alone.objective->table())) < 1e-5);
    const auto x = simulation.parameters(0);
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(x[i]) - alone.x[i]));
    CHECK(most < 1e-5);
  }
}

TEST_CASE("What has changed enough is told, and tables stay near each other, however stale") {
  for (const char* staleness : {"0", "2", "unbounded"})
    for (const char* codec : {"onebit_scaled", "qsgd:bits=4", "fp16", "intq:bits=4"}) {
      const Job job = click_job({std::string("exchange.staleness=") + staleness,
                                 std::string("table.codec=") + codec, "table.density=0.2", "run.rounds=300"});
      INFO(staleness << " " << codec);
      const Prepared prepared = prepare(job);
      Simulation simulation(prepared, {});
      const SimResult result = simulation.run();
      for (PeerId p = 0; p < job.peers.size(); ++p) {
        REQUIRE(result.peers[p].outcome == Outcome::finished);
        const auto& figures = result.peers[p].figures;
        const double touched = *optim::find_figure(figures, "rows_touched"),
                     told = *optim::find_figure(figures, "rows_told");
        CHECK(told < 0.3 * touched);
        CHECK(told > 0.1 * touched);
        CHECK(*optim::find_figure(figures, "auc") > 0.55);
      }
      CHECK(distance(weights_of(simulation, 0), weights_of(simulation, 2)) < 1.0);
    }
}

TEST_CASE("What peers have not told of rows when a view ends they tell in the next") {
  constexpr double kRate = 0.1;
  const auto at = [](const Weights& weights, std::uint64_t key) {
    const auto found = weights.find(key);
    return found == weights.end() ? 0.0 : static_cast<double>(found->second[0]);
  };
  const Prepared prepared = prepare(
      click_job({"peers=3", "graph.kind=full", "data.rows=6000", "data.keys=200", "run.rounds=200",
                 "table.optimizer=sgd", "table.learning_rate=0.1", "table.density=0.05", "run.min_peers=1"}));
  Untold untold;
  Simulation simulation(prepared, {.crashes = {{2, 0.8}}, .views = true, .view_observer = &untold});
  const SimResult result = simulation.run();
  for (PeerId p = 0; p < 2; ++p) REQUIRE(result.peers[p].outcome == Outcome::finished);
  REQUIRE(untold.views.contains(2));
  Weights tables[] = {weights_of(simulation, 0), weights_of(simulation, 1)};
  std::set<std::uint64_t> keys;
  for (const Weights& table : tables)
    for (const auto& [key, row] : table) keys.insert(key);
  double differ = 0, explained = 0;
  for (const std::uint64_t key : keys) {
    const double difference = at(tables[0], key) - at(tables[1], key);
    auto& last = untold.views.at(2).of;
    const double unsent = -kRate * (at(last[0], key) - at(last[1], key));
    differ = std::max(differ, std::abs(difference));
    explained = std::max(explained, std::abs(difference - unsent));
  }
  CHECK(differ > 0.05);
  CHECK(explained < 0.001);
}

TEST_CASE("Tables that are alike stay so when a peer is lost") {
  for (const Settings& more : std::vector<Settings>{kExact + Settings{"table.optimizer=adam"},
                                                    kExact + Settings{"table.optimizer=ftrl"},
                                                    {"exchange.method=allreduce", "table.density=0.05"}}) {
    const Prepared prepared = prepare(click_job(
        Settings{"peers=3", "graph.kind=full", "data.rows=6000", "run.rounds=200", "run.min_peers=1"} +
        more));
    Simulation simulation(prepared, {.crashes = {{2, 0.8}}, .views = true});
    const SimResult result = simulation.run();
    for (PeerId p = 0; p < 2; ++p) REQUIRE(result.peers[p].outcome == Outcome::finished);
    INFO(fmt::format("{}", more.back()));
    const double apart = distance(weights_of(simulation, 0), weights_of(simulation, 1));
    CHECK(apart < (prepared.job.sparse.density < 1 ? 0.3 : 1e-9));
  }
}

TEST_CASE("A table that is full stays within its limit, and says so") {
  const Job job = click_job({"data.keys=100000", "data.power=0.5", "table.memory=256KiB", "run.rounds=400",
                             "optimizer.batch=32", "data.rows=60000"});
  const Prepared prepared = prepare(job);
  Simulation simulation(prepared, {});
  for (const auto& peer : simulation.run().peers) {
    CHECK(*optim::find_figure(peer.figures, "table_bytes") <= 256 * 1024);
    CHECK(*optim::find_figure(peer.figures, "admit_after") > 1);
  }
}

TEST_CASE("However slow a peer is, its data plane is given no more of the others' messages than it may") {
  constexpr std::size_t kMost = 4096, kLargest = 512;
  Prepared prepared = prepare(click_job(
      {"exchange.staleness=unbounded", "graph.kind=ring", "run.rounds=1500", "sim.slow=[\"peer1=400\"]"}));
  Plan plan = *prepared.plan;
  RowPlan rows = *plan.rows;
  rows.most_given = kMost;
  plan.rows = std::make_shared<const RowPlan>(std::move(rows));
  prepared.plan = std::make_shared<const Plan>(std::move(plan));
  Given given(1);
  Run run(prepared, {}, &given);
  run.go();
  CHECK(run.all(Outcome::finished));
  CHECK(given.most > kMost);
  // what waited until a gradient, and what came after it
  CHECK(given.most < 2 * kMost + 2 * 16 * kLargest);
}

TEST_CASE("A run with tables that was saved goes on to the same bits") {
  for (const Settings& settings :
       std::vector<Settings>{kExact,
                             {"table.density=0.1"},
                             {"table.statistics=true", "table.density=0.2", "data.rows=900"},
                             {"model.kind=deepfm", "model.factors=2", "table.codec=qsgd", "table.density=0.3",
                              "table.optimizer=adam"},
                             {"graph.kind=star", "table.unsent=16", "table.density=0.05", "sim.loss=0.05"}}) {
    const Prepared prepared = prepare(click_job(settings + Settings{"run.rounds=30"}));
    INFO(fmt::format("{}", settings.at(0)));
    const std::uint64_t expected = Simulation(prepared, {}).run().digest;
    for (const Round round : {1, 13, 29}) {
      Simulation first(prepared, {}), second(prepared, {.seed = 9, .crashes = {}});
      std::vector<State> states;
      for (const State& state : first.save_after(round)) states.push_back(state_from_bytes(to_bytes(state)));
      second.restore(states);
      CHECK(second.run().digest == expected);
      CHECK(first.run().digest == expected);
    }
  }
}

TEST_CASE("Routes reach every peer once, over shortest paths") {
  for (const char* graph : {"ring", "star", "full", "exponential", "torus", "hierarchical"}) {
    topology::GraphSpec spec;
    spec.kind = graph;
    spec.peers = 9;
    const Routes routes(topology::make_schedule(spec));
    INFO(graph);
    REQUIRE(routes.complete());
    for (PeerId origin = 0; origin < 9; ++origin) {
      std::vector<int> reached(9, 0);
      std::vector<PeerId> now{origin};
      while (!now.empty()) {
        std::vector<PeerId> next;
        for (const PeerId p : now)
          for (const PeerId to : routes.onward(origin, p)) {
            ++reached[to];
            CHECK(routes.from(origin, to) == p);
            next.push_back(to);
          }
        now = next;
      }
      for (PeerId p = 0; p < 9; ++p) CHECK(reached[p] == (p == origin ? 0 : 1));
    }
  }
}

TEST_CASE("What rows of tables do not go with is refused") {
  const auto said = [](const Settings& settings) {
    return refusal_of([&] { prepare(click_job(settings)); });
  };
  CHECK(said({"exchange.delivery=best_effort", "exchange.staleness=unbounded"})
            .find("every push of rows is to be applied once") != std::string::npos);
  CHECK(said({"exchange.aggregate=median"}).find("rows of tables are summed") != std::string::npos);
  CHECK(said({"exchange.backup=1", "graph.kind=full"}).find("rows wait for all") != std::string::npos);
  CHECK(said({"sim.attackers=[\"peer1=noise:1\"]"}).find("corrupts parameters only") != std::string::npos);
  CHECK(said({"exchange.method=push_sum", "graph.kind=full", "exchange.delivery=best_effort",
              "exchange.staleness=unbounded", "table.exchange=none"})
            .empty());
}
