// Networks that fall apart and heal, in virtual time: who goes on, who waits, and what becomes of the models.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "churn_checkers.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr double kDetection_s = 4;  ///< of several at once, by those that are left

/// Every direction between peers of different sides, cut for a while.
std::string cuts(const std::vector<std::vector<PeerId>>& sides, double begin, double seconds) {
  std::string all;
  for (const auto& one : sides)
    for (const auto& other : sides)
      if (&one != &other)
        for (const PeerId a : one)
          for (const PeerId b : other)
            all += fmt::format("{}\"peer{}>peer{}@{}s+{}s\"", all.empty() ? "" : ", ", a, b, begin, seconds);
  return "sim.cut=[" + all + "]";
}

Job job_of(const std::string& method, const Settings& more) {
  return small_job(Settings{"exchange.method=" + method, "exchange.codec=dense", "peers=6", "run.rounds=3000",
                            "graph.kind=full", "run.report_every=0.05"} +
                   more);
}

struct Parted {
  explicit Parted(const Job& job, SimFaults faults = {}, std::vector<std::pair<PeerId, double>> told = {})
      : prepared(prepare(job)), checkers(prepared) {
    faults.views = true;
    faults.view_observer = &checkers;
    Simulation simulation(prepared, faults, &checkers);
    simulation.on_view = [this](PeerId p, double time, const View& view, double) {
      views[p].push_back({time, view.names()});
    };
    simulation.on_report = [this](PeerId p, double time, const Report& report) {
      if (!report.test) rounds[p].emplace_back(time, report.round);
    };
    simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    for (const auto& [peer, time] : told) simulation.interrupt(peer, time);
    result = simulation.run();
    for (PeerId p = 0; p < job.peers.size(); ++p) {
      const auto x = simulation.parameters(p);
      parameters.emplace_back(x.begin(), x.end());
    }
    if (checkers.first()) violation = checkers.first()->checker + ": " + checkers.first()->what;
  }
  Outcome outcome(PeerId p) const { return result.peers[p].outcome; }
  /// Rounds that it ended in that time.
  Round trained(PeerId p, double from, double to) const {
    Round first = 0, last = 0;
    for (const auto& [time, round] : rounds.at(p)) {
      if (time <= from) first = round;
      if (time <= to) last = round;
    }
    return last - first;
  }
  bool all(Outcome outcome) const {
    return std::all_of(result.peers.begin(), result.peers.end(),
                       [&](const auto& r) { return r.outcome == outcome; });
  }

  Prepared prepared;
  ChurnCheckers checkers;
  struct Entered {
    double time;
    std::vector<std::string> names;
  };
  std::map<PeerId, std::vector<Entered>> views;
  std::map<PeerId, std::vector<std::pair<double, Round>>> rounds;
  std::vector<std::vector<float>> parameters;
  std::string log, violation;
  SimResult result;
};

const std::vector<std::vector<PeerId>> kLarger{{0, 4}, {1, 2, 3, 5}}, kHalves{{0, 2, 4}, {1, 3, 5}};

}  // namespace

TEST_CASE("where peers begin alike the smaller side waits, and nothing is lost") {
  for (const char* method : {"allreduce", "diloco"}) {
    INFO(method);
    const Settings often = method == std::string("diloco") ? Settings{"exchange.local_steps=20"} : Settings{};
    Parted c(job_of(method, Settings{cuts(kLarger, 1, 6)} + often));
    INFO(c.log);
    CHECK(c.violation == "");
    CHECK(c.all(Outcome::finished));
    for (const PeerId p : {0, 4}) {
      CHECK(c.trained(p, 1.5, 7) == 0);
      CHECK(c.views[p].front().time > 7);
    }
    for (const PeerId p : {1, 2, 3, 5}) CHECK(c.trained(p, 1 + kDetection_s, 7) > 100);
    CHECK(says(c.log,
               "peer0: cut off from peer1, peer2, peer3, peer5, with 2 of 6 peers on this side, which is "
               "no majority; waiting for the others for 60 s at most (run.on_partition = continue), then "
               "going on without them"));
    CHECK(says(c.log,
               "peer1: cut off from peer0, peer4, with 4 of 6 peers on this side, which is the majority; "
               "going on without them"));
    if (find_method(method).invariants.all_alike)  // not between outer steps
      for (PeerId p = 1; p < 6; ++p) CHECK(c.parameters[p] == c.parameters[0]);
  }
}

TEST_CASE("of two halves the one with the first peer is the majority") {
  Parted c(job_of("allreduce", {cuts(kHalves, 1, 6)}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  for (const PeerId p : {0, 2, 4}) CHECK(c.trained(p, 1 + kDetection_s, 7) > 100);
  for (const PeerId p : {1, 3, 5}) CHECK(c.trained(p, 1.5, 7) == 0);
}

TEST_CASE("no side of three has a majority") {
  Parted c(job_of("allreduce", {cuts({{0, 1}, {2, 3}, {4, 5}}, 1, 6)}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  for (PeerId p = 0; p < 6; ++p) CHECK(c.trained(p, 1.5, 7) == 0);
}

TEST_CASE("who has waited long enough goes on, and later takes the state of those that are farther") {
  Parted c(job_of("allreduce", {cuts(kLarger, 1, 9), "run.partition_timeout=2s"}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  for (const PeerId p : {0, 4}) {
    CHECK(c.trained(p, 1.5, 3) == 0);
    CHECK(c.trained(p, 7, 10) > 100);
  }
  CHECK(says(c.log, "as they have not come back in 2 s"));
  CHECK(says(c.log, "of this side's steps"));
  for (PeerId p = 1; p < 6; ++p) CHECK(c.parameters[p] == c.parameters[0]);
}

TEST_CASE("on_partition majority ends the smaller side after its time, stop at once") {
  for (const auto& [policy, method] :
       {std::pair{"majority", "dpsgd"}, {"majority", "allreduce"}, {"stop", "dpsgd"}, {"stop", "push_sum"}}) {
    INFO(policy << " " << method);
    Parted c(job_of(method, {cuts(kLarger, 1, 20), fmt::format("run.on_partition={}", policy),
                             "run.partition_timeout=3s"}));
    INFO(c.log);
    CHECK(c.violation == "");
    for (const PeerId p : {0, 4}) {
      INFO(c.result.peers[p].message);
      CHECK(c.outcome(p) == Outcome::lost_peer);
      CHECK(says(c.result.peers[p].message, "cut off from peer1, peer2, peer3, peer5, with "));
      CHECK(says(c.result.peers[p].message, fmt::format("(run.on_partition = {})", policy)));
      CHECK(c.trained(p, 1.5, 20) == 0);
    }
    for (const PeerId p : {1, 2, 3, 5}) CHECK(c.outcome(p) == Outcome::finished);
  }
}

TEST_CASE("who waits under majority goes on when the others are back in time") {
  Parted c(job_of("dpsgd", {cuts(kLarger, 1, 6), "run.on_partition=majority", "run.partition_timeout=20s"}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  for (const PeerId p : {0, 4}) CHECK(c.trained(p, 1.5, 7) == 0);
  CHECK(says(c.log, "the model is 0.000 of this one's"));  // it has learned nothing meanwhile
}

TEST_CASE("gossip goes on on all sides, and these come together by the samples that each has seen") {
  for (const char* method : {"dpsgd", "choco", "noloco", "gradient_tracking"}) {
    for (const char* staleness : {"0", "unbounded"}) {
      INFO(method << " " << staleness);
      const bool stale = method == std::string("dpsgd") || method == std::string("choco");
      if (staleness != std::string("0") && !stale) continue;
      Parted c(job_of(method, {cuts(kLarger, 1, 6), fmt::format("exchange.staleness={}", staleness)}));
      INFO(c.log);
      CHECK(c.violation == "");
      CHECK(c.all(Outcome::finished));
      for (PeerId p = 0; p < 6; ++p) CHECK(c.trained(p, 1 + kDetection_s, 7) > 100);
      CHECK(c.checkers.merged() > 0);
      // some, perhaps, in a view that others then join before it is trained in
      for (PeerId p = 0; p < 6; ++p)
        CHECK(says(c.log, fmt::format("peer{}: the sides of the network come together", p)));
    }
  }
}

TEST_CASE("three sides come together as well") {
  Parted c(job_of("dpsgd", {cuts({{0, 1}, {2, 3}, {4, 5}}, 1, 6)}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  CHECK(c.checkers.merged() >= 6);
}

TEST_CASE("what a mass draws together is not merged") {
  Parted c(job_of("push_sum", {cuts(kLarger, 1, 6)}));
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.all(Outcome::finished));
  CHECK(c.checkers.merged() == 0);
}

TEST_CASE("peers whose processes have ended are cut off from nobody") {
  const std::vector<std::pair<PeerId, double>> most{{0, 1.0}, {1, 1.0}, {2, 1.0}, {3, 1.0}};
  SimFaults seen{.crashes = most}, silent{.crashes = most};
  seen.breaks = true;
  for (const SimFaults& faults : {seen, silent}) {
    Parted c(job_of("allreduce", {"run.partition_timeout=5s"}), faults);
    INFO(c.log);
    CHECK(c.violation == "");
    for (const PeerId p : {4, 5}) {
      CHECK(c.outcome(p) == Outcome::finished);
      REQUIRE(c.views[p].size() == 1);
      CHECK((c.views[p][0].time < 2) == faults.breaks);
      CHECK(c.views[p][0].time < 1 + 5 + kDetection_s);
    }
    CHECK((c.log.find("cut off from") == std::string::npos) == faults.breaks);
  }
}

TEST_CASE("peers that die one after another keep nobody waiting") {
  Parted c(job_of("allreduce", {}), {.crashes = {{5, 1.0}, {4, 4.0}, {3, 7.0}, {2, 10.0}}});
  INFO(c.log);
  CHECK(c.violation == "");
  CHECK(c.log.find("waiting for the others") == std::string::npos);
  for (const PeerId p : {0, 1}) CHECK(c.outcome(p) == Outcome::finished);
}

TEST_CASE("who waits for the others can be told to end") {
  Parted c(job_of("allreduce", {cuts(kLarger, 1, 9)}), {}, {{0, 6.0}});
  INFO(c.log);
  CHECK(c.outcome(0) == Outcome::interrupted);
  CHECK(says(c.result.peers[0].message, "while it waited for the others"));
  for (const PeerId p : {1, 2, 3, 4, 5}) CHECK(c.outcome(p) == Outcome::finished);
}
