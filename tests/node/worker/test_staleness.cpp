// Runs that do not wait for every neighbour in every round.
#include <map>

#include "gossamer_test/catch.h"
#include "hash.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const std::vector<Settings>& cases() {
  static const std::vector<Settings> all{
      {"exchange.method=choco", "exchange.codec=onebit_scaled"},
      {"exchange.method=choco", "exchange.codec=topk:density=0.2"},
      {"exchange.method=dpsgd", "exchange.codec=dense"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.overlap=true"},
  };
  return all;
}

std::vector<float> mean_of_rows(const optim::Dataset& data) {
  std::vector<double> sum(data.features(), 0);
  std::vector<float> row(data.features());
  for (std::uint32_t r = 0; r < data.rows(); ++r) {
    data.gather(std::span(&r, 1), row);
    for (std::size_t k = 0; k < row.size(); ++k) sum[k] += static_cast<double>(row[k]);
  }
  std::vector<float> mean;
  for (const double s : sum) mean.push_back(static_cast<float>(s / static_cast<double>(data.rows())));
  return mean;
}

/// Per link and parcel: every state that a peer's own estimate for a neighbour went through.
class Histories {
 public:
  explicit Histories(Run& run) : run_(run), schedule_(topology::make_schedule(run.prepared.job.graph)) {
    for (const Parcel& p : make_parcels(run.prepared.layers, run.prepared.job.exchange.parcel))
      ranges_.push_back(p.range);
    for (PeerId i = 0; i < schedule_.peers(); ++i) remember(i);
    run.simulation.on_report = [this](PeerId peer, double, const Report&) { remember(peer); };
  }

  std::span<const float> own(PeerId of, PeerId at) const {
    return run_.simulation.slot(of, static_cast<Slot>(2 + neighbours(of) + number(of, at)));
  }
  std::span<const float> estimate(PeerId of, PeerId at) const {
    return run_.simulation.slot(at, static_cast<Slot>(2 + number(at, of)));
  }
  bool estimate_was_own(PeerId of, PeerId at) const {
    for (std::size_t p = 0; p < ranges_.size(); ++p) {
      const auto& states = states_.at({of, at, p});
      const std::uint64_t now = hash(estimate(of, at), p);
      if (std::find(states.begin(), states.end(), now) == states.end()) return false;
    }
    return true;
  }
  std::size_t states(PeerId of, PeerId at) const { return states_.at({of, at, 0}).size(); }
  std::span<const topology::Edge> links(PeerId i) const { return schedule_.at(0).in(i); }

 private:
  std::size_t neighbours(PeerId i) const { return links(i).size(); }
  std::size_t number(PeerId i, PeerId neighbour) const {
    std::size_t n = 0;
    while (links(i)[n].peer != neighbour) ++n;
    return n;
  }
  std::uint64_t hash(std::span<const float> slot, std::size_t parcel) const {
    return hash_floats(slot.subspan(ranges_[parcel].begin, ranges_[parcel].size));
  }
  void remember(PeerId peer) {
    for (const auto& link : links(peer))
      for (std::size_t p = 0; p < ranges_.size(); ++p) {
        auto& states = states_[{peer, link.peer, p}];
        const std::uint64_t now = hash(own(peer, link.peer), p);
        if (states.empty() || states.back() != now) states.push_back(now);
      }
  }

  Run& run_;
  topology::Schedule schedule_;
  std::vector<Range> ranges_;
  std::map<std::tuple<PeerId, PeerId, std::size_t>, std::vector<std::uint64_t>> states_;
};

}  // namespace

TEST_CASE("nobody runs further ahead than the bound") {
  for (const Settings& method : cases())
    for (const std::uint64_t bound : {1U, 2U, 5U}) {
      Job job = small_job(
          method + Settings{"sim.step_jitter=0.9", "run.rounds=60", "sim.loss=0.02", "sim.jitter=0.01"});
      job.exchange.staleness = bound;
      job.sim.slow = {{"peer2", 4.0}};
      Run run(job);
      INFO(method[0] << ", at most " << bound);
      CHECK(run.go().all(Outcome::finished));
      std::uint64_t most = 0;
      for (const auto& p : run.result.peers) {
        CHECK(p.staleness_max <= bound);
        most = std::max(most, p.staleness_max);
      }
      CHECK(most == bound);  // the slow peer's neighbours use all that they are allowed
    }
}

TEST_CASE("a synchronous run uses nothing old") {
  for (const Settings& method : cases()) {
    Run run(small_job(method + Settings{"sim.step_jitter=0.9", "sim.loss=0.05"}));
    CHECK(run.go().all(Outcome::finished));
    for (const auto& p : run.result.peers) CHECK(p.staleness_max == 0);
  }
}

TEST_CASE("without a bound nobody waits for a slow peer") {
  for (const Settings& method : cases()) {
    Job job = small_job(method + Settings{"exchange.staleness=unbounded", "run.rounds=100"});
    job.sim.slow = {{"peer1", 10.0}};
    job.sim.step_jitter = 0;
    Run run(job);
    INFO(method[0]);
    CHECK(run.go().all(Outcome::finished));
    for (PeerId p = 0; p < 4; ++p) {
      const auto& r = run.result.peers[p];
      CHECK(r.seconds == Approx(static_cast<double>(r.rounds) * job.sim.step_time * (p == 1 ? 10 : 1)));
    }
    CHECK(run.result.peers[0].rounds >= 8 * run.result.peers[1].rounds);
    CHECK(run.result.peers[0].staleness_max > 50);
  }
}

TEST_CASE("a peer that cannot keep up is not buried in messages") {
  for (const Settings& method : cases()) {
    Job job = small_job(method + Settings{"peers=2", "exchange.staleness=unbounded", "run.rounds=200"});
    job.sim.slow = {{"peer1", 50.0}};
    Run run(job);
    REQUIRE(run.go().all(Outcome::finished));
    const double rounds_sent = static_cast<double>(run.result.peers[0].traffic.data_entries_out) /
                               static_cast<double>(run.prepared.parameters);
    INFO(method[0]);
    CHECK(rounds_sent < 50);  // the slow peer takes 8 steps meanwhile
    CHECK(rounds_sent >= 4);
  }
}

TEST_CASE("the weight of a neighbour that was never heard goes to the peer itself") {
  for (const Settings& method : {cases()[2], cases()[3]}) {
    Job job = small_job(method + Settings{"peers=2", "exchange.staleness=unbounded", "run.rounds=5"});
    job.sim.slow = {{"peer1", 100.0}};
    job.sim.latency = 0.1;
    Run run(job);
    REQUIRE(run.go().all(Outcome::finished));
    PlainPeers plain(run.prepared);
    CHECK(run.result.peers[0].rounds == 10);  // all that were to be taken by both
    for (Round t = 0; t < 10; ++t) {
      const AlignedFloats u = plain.steps(t)[0];
      for (std::size_t k = 0; k < u.size(); ++k) plain.x[0][k] -= u[k];
    }
    CHECK(largest_difference(run.simulation.parameters(0), plain.x[0]) < 1e-5);
  }
}

TEST_CASE("with a bound the fast wait for the slow") {
  Job job = small_job(cases()[0] + Settings{"exchange.staleness=3", "run.rounds=100"});
  job.sim.slow = {{"peer1", 10.0}};
  Run run(job);
  CHECK(run.go().all(Outcome::finished));
  CHECK(run.result.peers[3].seconds > 0.9 * run.result.peers[1].seconds);
}

TEST_CASE("a time-varying graph may be asynchronous") {
  for (const char* staleness : {"2", "unbounded"}) {
    Job job = small_job(cases()[2] + Settings{"graph.kind=one_peer_exponential", "peers=6", "run.rounds=60",
                                              std::string("exchange.staleness=") + staleness});
    job.sim.slow = {{"peer1", 5.0}};
    job.sim.loss = 0.05;
    Run run(job);
    CHECK(run.go().all(Outcome::finished));
  }
}

TEST_CASE("asynchronous runs come near the optimum") {
  for (const char* staleness : {"0", "4", "unbounded"})
    for (const Settings& method : cases()) {
      Job job =
          small_job(method + Settings{"model.kind=quadratic", "data.rows=4096", "optimizer.batch=256",
                                      "optimizer.learning_rate=0.1", "run.rounds=1500", "sim.jitter=0.004",
                                      std::string("exchange.staleness=") + staleness});
      job.sim.slow = {{"peer1", 3.0}};
      Run run(job);
      INFO(method[0] << " " << method[1] << ", staleness " << staleness);
      REQUIRE(run.go().all(Outcome::finished));
      const std::vector<float> best = mean_of_rows(*run.prepared.data.train);
      const auto start = std::span<const float>(run.prepared.initial).first(best.size());
      for (PeerId p = 0; p < 4; ++p) {
        const auto x = run.simulation.parameters(p).first(best.size());
        CHECK(largest_difference(x, best) < 0.06);
        CHECK(largest_difference(start, best) > 1);
      }
    }
}

// A delta that comes after the receiver's last round is not absorbed any more. What was absorbed must be all
// that the sender's estimate for this link had gone through up to then.
TEST_CASE("estimates of asynchronous neighbours are theirs to the bit") {
  std::size_t skipped = 0;
  for (const char* staleness : {"3", "unbounded"})
    for (const char* codec : {"onebit_scaled", "topk:density=0.1", "qsgd:bits=4,norm=max"}) {
      Job job = small_job({"peers=5", std::string("exchange.codec=") + codec, "exchange.parcel=16",
                           "run.rounds=80", "run.report_every=0.000001", "sim.jitter=0.004",
                           std::string("exchange.staleness=") + staleness});
      job.sim.loss = job.sim.duplicate = 0.1;
      job.sim.reorder = 0.2;
      job.sim.slow = {{"peer0", 8.0}, {"peer3", 3.0}};
      Run run(job);
      const Histories histories(run);
      REQUIRE(run.go().all(Outcome::finished));
      INFO(codec << ", staleness " << staleness);
      for (PeerId i = 0; i < 5; ++i)
        for (const auto& link : histories.links(i)) {
          CHECK(histories.estimate_was_own(link.peer, i));
          skipped += histories.states(link.peer, i) <= run.result.peers[link.peer].rounds;
        }
    }
  CHECK(skipped > 0);  // a link whose messages were not used in time was left out for a round
}
