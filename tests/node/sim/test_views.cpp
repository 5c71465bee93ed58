// Runs whose peers come and go, in virtual time.
#include <fmt/format.h>

#include <map>
#include <set>

#include "courses.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

/// What a run with faults came to.
struct Views {
  Views(const Job& job, SimFaults faults, std::uint64_t seed = 1) : run(prepare(job), with(faults, seed)) {
    run.simulation.on_view = [this](PeerId p, double time, const View& view, double share) {
      entered[p].push_back(view.names());
      times[p].push_back(time);
      shares[p].push_back(share);
    };
    run.simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    run.go();
  }
  static SimFaults with(SimFaults faults, std::uint64_t seed) {
    faults.views = true;
    faults.seed = seed;
    return faults;
  }
  double mean_loss() const {
    double sum = 0;
    std::size_t count = 0;
    for (const WorkerResult& r : run.result.peers)
      if (r.outcome == Outcome::finished) sum += r.train_loss, ++count;
    return sum / static_cast<double>(count);
  }

  std::map<PeerId, std::vector<std::vector<std::string>>> entered;
  std::map<PeerId, std::vector<double>> times, shares;
  std::string log;
  Run run;
};

Job job_of(const std::string& method, const std::string& codec, const Settings& more = {}) {
  return small_job(Settings{"exchange.method=" + method, "exchange.codec=" + codec, "peers=6",
                            "run.rounds=600", "run.min_peers=1", "graph.kind=full"} +
                   more);
}

const std::vector<std::pair<const char*, const char*>> kMethods{
    {"choco", "onebit_scaled"}, {"dpsgd", "dense"},  {"allreduce", "dense"}, {"allreduce", "onebit_scaled"},
    {"push_sum", "dense"},      {"noloco", "dense"}, {"diloco", "dense"},    {"broadcast", "qsgd:bits=4"}};

}  // namespace

TEST_CASE("a run goes on without peers that die") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    const Job job = job_of(method, codec);
    const double calm = Views(job, {}).mean_loss();
    Views v(job, {.crashes = {{2, 1.0}, {5, 2.0}}});
    INFO(v.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      if (p == 2 || p == 5) continue;
      CHECK(v.run.result.peers[p].outcome == Outcome::finished);
      REQUIRE_FALSE(v.entered[p].empty());
      CHECK(v.entered[p].back() == std::vector<std::string>{"peer0", "peer1", "peer3", "peer4"});
      CHECK(v.times[p].front() < 1.0 + 2.5);
    }
    CHECK(v.mean_loss() < 1.3 * calm + 0.05);
  }
}

TEST_CASE("a peer that died comes back with what the others have learned") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    const Job job = job_of(method, codec);
    Views v(job, {.crashes = {{2, 0.8}}, .restarts = {{2, 2.0}}});
    INFO(v.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      CHECK(v.run.result.peers[p].outcome == Outcome::finished);
      REQUIRE_FALSE(v.entered[p].empty());
      CHECK(v.entered[p].back().size() == 6);
    }
    REQUIRE_FALSE(v.shares[2].empty());
    CHECK(v.shares[2].front() > 0.1);
    if (find_method(method).invariants.all_alike) CHECK(v.run.peers_identical());
  }
}
