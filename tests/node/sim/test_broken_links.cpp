// Two peers that live and do not hear each other, though others hear both, in virtual time.
#include <fmt/format.h>

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
    CHECK(b.run.all(Outcome::finished));
    CHECK(b.run.result.virtual_seconds < 60);
    if (kind.size() == 3) continue;  // nobody waits for anybody
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
    CHECK(b.run.all(Outcome::finished));
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
