// Two peers that live and do not hear each other, though others hear both, in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

struct Broken {
  Broken(const Settings& settings, SimFaults faults = {})
      : run(prepare(
                small_job(Settings{"exchange.codec=dense", "peers=4", "run.rounds=4000", "run.min_peers=1"} +
                          settings)),
            with(faults)) {
    run.simulation.on_view = [this](PeerId p, double time, const View& view, double) {
      views[p].push_back(view.names());
      entered[p].push_back(time);
    };
    run.simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    run.go();
  }
  static SimFaults with(SimFaults faults) {
    faults.views = true;
    return faults;
  }
  /// Those trained to the end, and these were left out when it came.
  bool ended(const std::vector<PeerId>& well, const std::vector<PeerId>& out) {
    const auto& r = run.result.peers;
    return std::all_of(well.begin(), well.end(),
                       [&](PeerId p) { return r[p].outcome == Outcome::finished; }) &&
           std::all_of(out.begin(), out.end(), [&](PeerId p) {
             return r[p].outcome == Outcome::lost_peer && says(r[p].message, "while this peer was left out");
           });
  }
  /// The view of the peer in the middle of that time.
  std::size_t members_at(PeerId p, double time) {
    std::size_t members = 0;
    for (std::size_t k = 0; k < views[p].size(); ++k)
      if (entered[p][k] <= time) members = views[p][k].size();
    return members;
  }

  std::map<PeerId, std::vector<std::vector<std::string>>> views;
  std::map<PeerId, std::vector<double>> entered;
  std::string log;
  Run run;
};

std::string cut(int a, int b, const std::string& when) {
  return fmt::format("sim.cut=[\"peer{0}>peer{1}@{2}\", \"peer{1}>peer{0}@{2}\"]", a, b, when);
}

const std::vector<Settings> kKinds{
    {"exchange.method=choco", "graph.kind=ring"},
    {"exchange.method=dpsgd", "graph.kind=ring", "exchange.staleness=\"unbounded\""},
    {"exchange.method=allreduce", "graph.kind=full"},
    {"exchange.method=noloco", "graph.kind=full"}};

}  // namespace

TEST_CASE("where two neighbours do not hear each other the rest goes on without one of them") {
  for (const Settings& kind : kKinds) {
    Broken b(kind + Settings{cut(0, 1, "1s+500s")});
    INFO(kind[0] << "\n" << b.log);
    CHECK(b.run.result.virtual_seconds < 60);
    if (kind.size() == 3) continue;  // nobody waits for anybody
    CHECK(b.ended({0, 2, 3}, {1}));
    CHECK(says(b.log, "peer1 is left out until peer0 and it hear each other"));
    CHECK(b.members_at(0, 15) == 3);
  }
}

TEST_CASE("who was left out takes part again when its link is well") {
  for (const Settings& kind : {kKinds[0], kKinds[2]}) {
    Broken b(kind + Settings{"run.rounds=8000", cut(0, 1, "1s+12s")});
    INFO(kind[0] << "\n" << b.log);
    CHECK(b.run.all(Outcome::finished));
    CHECK(b.members_at(0, 12) == 3);
    CHECK(b.members_at(0, 25) == 4);
    CHECK(b.views[1].back().size() == 4);
  }
}

TEST_CASE("links that break for less than it takes to be sure leave nobody out") {
  Broken b(kKinds[0] + Settings{cut(0, 1, "1s+4s")});
  INFO(b.log);
  CHECK(b.run.all(Outcome::finished));
  CHECK_FALSE(says(b.log, "left out"));
  CHECK(b.members_at(0, 1e9) == 4);
}

TEST_CASE("who does not hear most of the others is the one that is left out") {
  for (const Settings& kind : {kKinds[0], kKinds[2]}) {
    Broken b(kind +
             Settings{"sim.cut=[\"peer0>peer1@1s+500s\", \"peer1>peer0@1s+500s\", \"peer0>peer3@1s+500s\", "
                      "\"peer3>peer0@1s+500s\"]"});
    INFO(kind[0] << "\n" << b.log);
    CHECK(b.ended({1, 2, 3}, {0}));
    CHECK(says(b.log, "peer0 is left out until peer1, peer3 and it hear each other"));
    CHECK(b.members_at(1, 15) == 3);
  }
}

TEST_CASE("who comes and is heard by one member alone does not hold up the others for good") {
  for (const Settings& kind : {kKinds[0], kKinds[2]}) {
    const std::string cuts =
        "sim.cut=[\"peer0>peer3@1s+500s\", \"peer3>peer0@1s+500s\", \"peer2>peer3@1s+500s\", "
        "\"peer3>peer2@1s+500s\"]";
    Broken b(kind + Settings{cuts}, {.crashes = {{3, 2.0}}, .restarts = {{3, 3.0}}});
    INFO(kind[0] << "\n" << b.log);
    CHECK(says(b.log, "peer3 is left out until"));
    for (PeerId p = 0; p < 3; ++p) CHECK(b.run.result.peers[p].outcome == Outcome::finished);
    CHECK(b.run.result.virtual_seconds < 60);
  }
}

TEST_CASE("several that are left out do not train on by themselves when the others have ended") {
  for (const char* method : {"choco", "allreduce"}) {
    Broken b({std::string("exchange.method=") + method, "graph.kind=full", "peers=5", "run.rounds=3000",
              "sim.cut=[\"peer0>peer3@1s+500s\", \"peer3>peer0@1s+500s\", \"peer1>peer4@1s+500s\", "
              "\"peer4>peer1@1s+500s\"]"});
    INFO(method << "\n" << b.log);
    CHECK(b.ended({0, 1, 2}, {3, 4}));
    CHECK(b.run.result.virtual_seconds < 60);
  }
}

TEST_CASE("a broken link is found whatever the time-outs of silence and of joining") {
  for (const Settings& times : {Settings{"run.silence_timeout=30"}, Settings{"run.join_timeout=5"}}) {
    Broken b(kKinds[0] + times + Settings{cut(0, 1, "1s+3000s")});
    INFO(times[0] << "\n" << b.log);
    CHECK(b.ended({0, 2, 3}, {1}));
    CHECK(b.run.result.virtual_seconds < 150);
  }
}

TEST_CASE("who comes back gives its model to those that hear it, though another does not") {
  Broken b({"exchange.method=dpsgd", "graph.kind=ring", "peers=5", "run.rounds=8000",
            "sim.cut=[\"peer0>peer2@1s+900s\", \"peer2>peer0@1s+900s\", \"peer1>peer2@1s+20s\", "
            "\"peer2>peer1@1s+20s\"]"});
  INFO(b.log);
  CHECK(b.run.result.virtual_seconds < 120);
  for (const PeerId p : {0, 1, 3, 4}) CHECK(b.run.result.peers[p].outcome == Outcome::finished);
}
