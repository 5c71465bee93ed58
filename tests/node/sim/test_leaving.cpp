// Peers that are told to end while others go on, in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "courses.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

using Times = std::vector<std::pair<PeerId, double>>;
constexpr double kDetection_s = 1.5;  ///< suspicion included, of a peer that stops for good

/// A run some of whose peers are told to end at such times, and are started again at others.
struct Leaving {
  Leaving(const Job& job, const Times& told, const Times& again = {}, std::uint64_t seed = 1)
      : run(prepare(job), faults(again, seed)) {
    run.simulation.on_view = [this](PeerId p, double time, const View& view, double share) {
      entered[p].push_back({time, share, view.names()});
    };
    run.simulation.on_report = [this](PeerId p, double time, const Report& report) {
      if (report.test) return;
      if (const auto last = reported.find(p); last != reported.end())
        longest_pause[p] = std::max(longest_pause[p], time - last->second);
      reported[p] = time;
      rounds[p].push_back(report.round);
    };
    run.simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    for (const auto& [peer, time] : told) run.simulation.interrupt(peer, time);
    run.go();
  }
  static SimFaults faults(const Times& again, std::uint64_t seed) {
    SimFaults faults{.seed = seed, .crashes = {}, .restarts = again};
    faults.views = true;
    faults.grace_s = 10;
    return faults;
  }
  Outcome outcome(PeerId p) const { return run.result.peers[p].outcome; }

  struct Entered {
    double time, share;
    std::vector<std::string> names;
  };
  std::map<PeerId, std::vector<Entered>> entered;
  std::map<PeerId, std::vector<Round>> rounds;
  std::map<PeerId, double> reported, longest_pause;
  std::string log;
  Run run;
};

Job leaving_job(const std::string& method, const std::string& codec, const Settings& more = {}) {
  return small_job(Settings{"exchange.method=" + method, "exchange.codec=" + codec, "peers=6",
                            "run.rounds=600", "run.min_peers=1", "run.report_every=0.001",
                            "graph.kind=full"} +
                   more);
}

const std::vector<std::pair<const char*, const char*>> kLeft{
    {"choco", "onebit_scaled"}, {"dpsgd", "dense"},  {"allreduce", "dense"}, {"allreduce", "onebit_scaled"},
    {"push_sum", "dense"},      {"noloco", "dense"}, {"diloco", "dense"},    {"broadcast", "qsgd:bits=4"}};

}  // namespace

TEST_CASE("who is told to end leaves, and the others go on from the same round at once") {
  for (const auto& [method, codec] : kLeft) {
    INFO(method << " " << codec);
    const Job job = leaving_job(method, codec);
    const bool together = save_spec(job).together;
    Leaving c(job, {{2, 1.0}, {0, 2.5}});
    INFO(c.log);
    CHECK(c.outcome(2) == Outcome::interrupted);
    CHECK(c.outcome(0) == Outcome::interrupted);
    for (const PeerId p : {1, 3, 4, 5}) {
      INFO("peer" << p << ": " << c.run.result.peers[p].message);
      CHECK(c.outcome(p) == Outcome::finished);
      REQUIRE(c.entered[p].size() == 2);
      CHECK(c.entered[p][1].names == std::vector<std::string>{"peer1", "peer3", "peer4", "peer5"});
      CHECK(c.longest_pause[p] < kDetection_s / 5);
      if (together)
        for (std::size_t view = 0; view < 2; ++view)
          CHECK(c.entered[p][view].share == c.entered[1][view].share);
    }
    // nobody has to take what another has learned, but for those that differ between outer steps
    if (together && job.exchange.method != "diloco")
      CHECK(c.log.find("taking the state") == std::string::npos);
    if (find_method(method).invariants.all_alike)
      CHECK(Run::same_bits(c.run.simulation.parameters(1), c.run.simulation.parameters(3)));
  }
}

TEST_CASE("peers that leave at any time cost the others no round") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    const double first = 0.3 + 0.17 * static_cast<double>(seed),
                 second = first + 0.05 * static_cast<double>(seed % 5);
    Leaving c(leaving_job("allreduce", "dense"),
              {{static_cast<PeerId>(seed % 6), first}, {static_cast<PeerId>((seed + 2) % 6), second}}, {},
              seed);
    INFO(c.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << c.run.result.peers[p].message);
      const bool told = p == seed % 6 || p == (seed + 2) % 6;
      CHECK(c.outcome(p) == (told ? Outcome::interrupted : Outcome::finished));
      CHECK(std::is_sorted(c.rounds[p].begin(), c.rounds[p].end()));
      if (!told) CHECK(c.longest_pause[p] < kDetection_s / 5);
    }
    CHECK(c.log.find("taking the state") == std::string::npos);
  }
}

TEST_CASE("where nobody waits a peer leaves when all that it sent has arrived") {
  for (const char* method : {"dpsgd", "push_sum", "choco"}) {
    INFO(method);
    Leaving c(leaving_job(method, "dense", {"exchange.staleness=unbounded"}), {{2, 1.0}, {0, 1.5}});
    INFO(c.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << c.run.result.peers[p].message);
      const bool told = p == 0 || p == 2;
      CHECK(c.outcome(p) == (told ? Outcome::interrupted : Outcome::finished));
      if (told) CHECK(c.run.result.peers[p].message.starts_with("told to end, and left in round"));
      if (!told) CHECK(c.longest_pause[p] < kDetection_s / 5);
    }
    CHECK(c.log.find("before all were at rest") == std::string::npos);
    CHECK(c.entered[1].front().time < 1.0 + 0.2);
  }
}

TEST_CASE("who has left comes back as a later start") {
  for (const auto& [method, codec] : kLeft) {
    INFO(method << " " << codec);
    Leaving c(leaving_job(method, codec), {{2, 0.8}}, {{2, 2.5}});
    INFO(c.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << c.run.result.peers[p].message);
      CHECK(c.outcome(p) == Outcome::finished);
      REQUIRE_FALSE(c.entered[p].empty());
      CHECK(c.entered[p].back().names.size() == 6);
    }
    REQUIRE_FALSE(c.entered[2].empty());
    CHECK(c.entered[2].front().share > 0.1);
    CHECK(c.log.find("peer peer2 left: it ended by itself") != std::string::npos);
    CHECK(c.log.find("peer peer2 is back: started again") != std::string::npos);
  }
}

TEST_CASE("all that are told to end do, and so do those that are too few") {
  const Job job = leaving_job("dpsgd", "dense", {"run.min_peers=3"});
  Leaving all(job, {{0, 1.0}, {1, 1.001}, {2, 1.002}, {3, 1.0}, {4, 1.003}, {5, 1.0}});
  INFO(all.log);
  CHECK(all.run.all(Outcome::interrupted));
  for (PeerId p = 0; p < 6; ++p) CHECK(all.rounds[p].back() == all.rounds[0].back());

  Leaving few(job, {{0, 1.0}, {1, 1.0}, {2, 1.0}, {3, 1.0}});
  INFO(few.log);
  for (const PeerId p : {4, 5}) {
    INFO(few.run.result.peers[p].message);
    CHECK(few.outcome(p) == Outcome::lost_peer);
    CHECK(few.run.result.peers[p].message == "2 of 6 peers are left, and run.min_peers = 3 must be there");
  }
}
