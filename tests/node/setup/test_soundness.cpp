// The program against soundness.toml. Whole runs here for a ring, its time-varying kin and the full
// graph with dense, 1-bit and sparse codecs; table_soundness runs all of the file.
#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "method.h"
#include "soundness_table.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

/// Whole runs of these graphs' combinations.
void check_runs(const std::set<std::string>& graphs) {
  constexpr std::array kCodecs{"dense", "onebit_scaled", "topk:density=0.3",
                               "qsgd:bits=4,bucket=128,norm=max"};
  std::set<std::string> left = graphs;
  gossamer::test::Drawn drawn(8);
  for (const Combination& c : read_combinations()) {
    const bool runs = c.sound && c.staleness == "0" && graphs.contains(c.graph) &&
                      std::find(kCodecs.begin(), kCodecs.end(), c.codec) != kCodecs.end();
    if (!runs) continue;
    left.erase(c.graph);
    if (!drawn()) continue;
    INFO(c.name());
    CHECK(distance_to_optimum(c, 1) <= c.within);
  }
  CHECK(left.empty());
}

}  // namespace

TEST_CASE("sound combinations are accepted, unsound ones refused with the reason") {
  for (const Combination& c : read_combinations()) {
    INFO(c.name());
    const std::string said = refusal(c);
    if (c.sound) CHECK(said == "");
    if (!c.sound) CHECK(says(said, c.because));
  }
}

TEST_CASE("sound combinations on a ring come to the optimum as near as theory has it") {
  check_runs({"ring"});
}
TEST_CASE("sound combinations on varying graphs come to the optimum as near as theory has it") {
  check_runs({"one_peer_exponential", "epidemic degree=2"});
}
TEST_CASE("sound combinations on a tree come to the optimum as near as theory has it") {
  check_runs({"tree degree=2"});
}
TEST_CASE("sound combinations on a full graph come to the optimum as near as theory has it") {
  check_runs({"full"});
}

TEST_CASE("every method has combinations that are sound") {
  std::set<std::string> named{"none", "ensemble"};  // whose peers keep models of their own, each its optimum
  for (const Combination& c : read_combinations())
    if (c.sound) named.insert(c.method);
  for (const Method* m : methods()) {
    INFO(m->row.name);
    CHECK(named.contains(std::string(m->row.name)));
  }
}
