// The program against tests/soundness.toml. Whole runs here for a ring, its time-varying kin and the full
// graph with dense, 1-bit and sparse codecs; table_soundness runs all of the file.
#include <algorithm>
#include <array>
#include <set>

#include "gossamer_test/catch.h"
#include "methods.h"
#include "soundness.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

bool runs_here(const Combination& c) {
  constexpr std::array kGraphs{"ring", "one_peer_exponential", "full", "tree degree=2", "epidemic degree=2"};
  constexpr std::array kCodecs{"dense", "onebit_scaled", "topk:density=0.3",
                               "qsgd:bits=4,bucket=128,norm=max"};
  const auto among = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return c.sound && c.staleness == "0" && among(kGraphs, c.graph) && among(kCodecs, c.codec);
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

TEST_CASE("sound combinations come to the optimum as near as theory has it") {
  for (const Combination& c : read_combinations()) {
    if (!runs_here(c)) continue;
    INFO(c.name());
    CHECK(distance_to_optimum(c, 1) <= c.within);
  }
}

TEST_CASE("every method has combinations that are sound") {
  std::set<std::string> named{"none", "ensemble"};  // whose peers keep models of their own, each its optimum
  for (const Combination& c : read_combinations())
    if (c.sound) named.insert(c.method);
  for (const Method& m : methods()) {
    INFO(m.row.name);
    CHECK(named.contains(std::string(m.row.name)));
  }
}
