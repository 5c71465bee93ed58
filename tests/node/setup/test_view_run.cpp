// What a run is for those of its peers that are there: any graph, any method, any of eight peers.
#include "view_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <random>

#include "archive.h"
#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

using Members = std::vector<std::string>;

constexpr std::size_t kPeers = 8;

Members named(const std::vector<PeerId>& peers) {
  Members names;
  for (const PeerId p : peers) names.push_back(fmt::format("peer{}", p));
  return names;
}

/// At least one of eight.
Members drawn_members(std::mt19937_64& random) {
  std::vector<PeerId> peers;
  while (peers.empty())
    for (PeerId p = 0; p < kPeers; ++p)
      if (random() % 8 < 5) peers.push_back(p);
  return named(peers);
}

bool every(const topology::Schedule& s, bool (topology::MixingMatrix::*property)() const) {
  for (std::size_t t = 0; t < s.period(); ++t)
    if (!(s.at(t).*property)()) return false;
  return true;
}

bool rows_sum_to_one(const topology::Schedule& s) {
  for (std::size_t t = 0; t < s.period(); ++t)
    for (PeerId i = 0; i < s.peers(); ++i) {
      double sum = s.at(t).self_weight(i);
      for (const auto& e : s.at(t).in(i)) sum += e.weight;
      if (std::abs(sum - 1) > 1e-5 || s.at(t).self_weight(i) < -1e-6f) return false;
    }
  return true;
}

/// Eight peers with different batches, on the first codec, optimiser and staleness that is sound; none where
/// none is.
std::optional<Prepared> sound_run(const Settings& graph, std::string_view method) {
  for (const char* staleness : {"0", "unbounded"})
    for (const char* codec : {"onebit_scaled", "topk:density=0.2", "dense"}) try {
        Job job = small_job(Settings{"peers=8", "exchange.method=" + std::string(method),
                                     fmt::format("exchange.codec={}", codec), "optimizer.kind=sgd",
                                     fmt::format("exchange.staleness={}", staleness), "data.rows=1024",
                                     "run.rounds=0", "run.epochs=1"} +
                            graph);
        return prepare(with_batches(std::move(job), {4, 8, 4, 8, 12, 4, 8, 4}));
      } catch (const ConfigError&) {
      }
  return std::nullopt;
}

/// Every kind, as it is by default and in some other ways.
std::vector<Settings> all_graphs() {
  std::vector<Settings> all;
  for (const auto& kind : topology::graph_table()) {
    if (kind.traits.edges_are_written) continue;
    const Settings plain{"graph.kind=" + std::string(kind.name)};
    all.push_back(plain);
    const std::string_view reads = kind.reads;
    if (reads.find("degree") != reads.npos) all.push_back(plain + Settings{"graph.degree=4"});
    if (reads.find("directed") != reads.npos) all.push_back(plain + Settings{"graph.directed=false"});
    if (reads.find("groups") != reads.npos) all.push_back(plain + Settings{"graph.groups=4"});
    if (reads.find("rows") != reads.npos) all.push_back(plain + Settings{"graph.rows=2"});
    if (reads.find("probability") != reads.npos) all.push_back(plain + Settings{"graph.probability=0.4"});
  }
  all.push_back({"graph.kind=ring", "graph.weights=lazy"});
  all.push_back({"graph.kind=hypercube", "graph.weights=lazy"});
  all.push_back({"graph.kind=hypercube", "graph.weights=uniform"});
  return all;
}

std::size_t batches(const Job& job) {
  std::size_t sum = 0;
  for (const auto& p : job.peers) sum += p.batch;
  return sum;
}

/// What holds of every view.
void check_view(const Prepared& base, const Members& members, const ViewRun& view) {
  const Prepared& p = *view.prepared;
  INFO(fmt::format("{}: {}", fmt::join(members, " "), view.warning));
  const topology::Schedule& w = p.plan->schedule;
  CHECK(p.job.peer_names() == members);
  CHECK(w.peers() == members.size());
  CHECK(p.plan->share.size() == members.size());
  CHECK(rows_sum_to_one(w));
  if (every(base.plan->schedule, &topology::MixingMatrix::doubly_stochastic))
    CHECK(every(w, &topology::MixingMatrix::doubly_stochastic));
  if (every(base.plan->schedule, &topology::MixingMatrix::symmetric))
    CHECK(every(w, &topology::MixingMatrix::symmetric));
  const bool connected = topology::analyse(w).connected;
  CHECK((connected || says(view.warning, "falls apart")));
  CHECK(connected == p.bridges.empty());
  if (!base.job.learns_by_key())
    CHECK(p.rounds_per_epoch == std::max<std::size_t>(1, base.data.train->rows() / batches(p.job)));
  CHECK(p.job.optimizer.total_steps == p.rounds);
  CHECK(p.total_samples == (p.job.exchange.staleness ? 0.0 : static_cast<double>(p.rounds * batches(p.job))));
  CHECK(p.initial.data() == base.initial.data());
  CHECK(p.hello.job_hash != base.hello.job_hash);
  CHECK(says(p.hello.job_text, fmt::format("[view]\nmembers = [\"{}\"", members.front())));
}

void check_runs(const ViewRun& view, std::size_t rounds) {
  Prepared p = *view.prepared;
  p.rounds = rounds;
  if (p.total_samples > 0) p.total_samples = static_cast<double>(rounds * batches(p.job));
  Run run(p);
  run.go();
  for (const auto& peer : run.result.peers) {
    INFO(peer.message);
    CHECK(peer.outcome == Outcome::finished);
  }
  CHECK(largest_difference(run.simulation.parameters(0), p.initial) > 1e-4);
}

}  // namespace

TEST_CASE("any of the peers go on, whatever graph and method are sound together") {
  std::mt19937_64 random(1);
  std::size_t views = 0, runs = 0;
  for (const Settings& graph : all_graphs())
    for (const auto& method : method_table()) {
      const auto base = sound_run(graph, method.name);
      if (!base) continue;
      INFO(fmt::format("{} {} {}", fmt::join(graph, " "), method.name, base->job.exchange.codec));
      for (int n = 0; n < 3; ++n) {
        const Members members =
            n == 0 ? named({static_cast<PeerId>(random() % kPeers)}) : drawn_members(random);
        const ViewRun view = run_of_view(*base, members);
        check_view(*base, members, view);
        if (++views % 7 != 0) continue;
        check_runs(view, 6);
        ++runs;
      }
    }
  CHECK(views > 500);
  CHECK(runs > 80);
}

TEST_CASE("every method runs alone, and learns") {
  std::vector<std::string> left;
  for (const auto& method : method_table()) {
    std::optional<Prepared> base;
    for (const char* graph : {"full", "ring", "tree"})
      if (!base) base = sound_run({std::string("graph.kind=") + graph}, method.name);
    INFO(method.name);
    REQUIRE(base);
    const ViewRun view = run_of_view(*base, {"peer5"});
    CHECK(view.warning.empty());
    check_runs(view, 20);
  }
}
