#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

Schedule regular(std::size_t peers, std::size_t degree, std::uint64_t seed) {
  GraphSpec spec = spec_of("random_regular", peers);
  spec.degree = degree;
  spec.seed = seed;
  return make_schedule(spec);
}

}  // namespace

TEST_CASE("random_regular is simple and regular and connected for every seed and degree") {
  for (const std::size_t peers : {2, 3, 4, 5, 6, 7, 8, 12, 33})
    for (std::size_t degree = peers == 2 ? 1 : 2; degree < peers; ++degree)
      for (std::uint64_t seed = 0; seed < 20 && peers * degree % 2 == 0; ++seed) {
        CAPTURE(peers, degree, seed);
        const Schedule schedule = regular(peers, degree, seed);  // throws where not connected
        const MixingMatrix& w = schedule.at(0);
        REQUIRE(w.symmetric());
        for (PeerId i = 0; i < peers; ++i) {
          REQUIRE(w.in(i).size() == degree);  // in() holds each peer once and never its own
          REQUIRE(w.out(i).size() == degree);
        }
      }
}

TEST_CASE("random_regular depends on its seed and on nothing else") {
  std::set<std::vector<double>> graphs;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    graphs.insert(regular(16, 3, seed).at(0).dense());
    REQUIRE(graphs.count(regular(16, 3, seed).at(0).dense()) == 1);
  }
  REQUIRE(graphs.size() == 50);
}

TEST_CASE("random_regular is the same on every platform") {
  const Schedule schedule = regular(10, 3, 42);
  std::vector<PeerId> neighbours;
  for (PeerId i = 0; i < 10; ++i)
    for (const PeerId j : schedule.at(0).out(i))
      if (i < j) neighbours.insert(neighbours.end(), {i, j});
  REQUIRE(neighbours == std::vector<PeerId>{0, 1, 0, 8, 0, 9, 1, 2, 1, 3, 2, 5, 2, 8, 3,
                                            6, 3, 7, 4, 5, 4, 7, 4, 8, 5, 6, 6, 9, 7, 9});
}

TEST_CASE("random_regular joins all pairs about equally often") {
  constexpr int kSeeds = 600;
  int joined[8][8] = {};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Schedule schedule = regular(8, 3, seed);
    for (PeerId i = 0; i < 8; ++i)
      for (const PeerId j : schedule.at(0).out(i)) ++joined[i][j];
  }
  for (int i = 0; i < 8; ++i)  // 600·3/7 = 257, standard deviation about 12
    for (int j = 0; j < 8; ++j)
      if (i != j) REQUIRE(joined[i][j] == Approx(257).margin(60));
}

TEST_CASE("random_regular draws all connected graphs equally often") {
  // Cubic graphs on 6 labelled peers: 10 are K3,3, which has no triangle, and 60 prisms, which have two.
  constexpr int kSeeds = 7000;
  int without_triangle = 0;
  std::map<std::vector<double>, int> drawn;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Schedule schedule = regular(6, 3, seed);
    const MixingMatrix& w = schedule.at(0);
    bool triangle = false;
    for (PeerId i = 0; i < 6; ++i)
      for (const PeerId j : w.out(i))
        for (const PeerId k : w.out(j)) {
          const auto ends = w.out(k);
          triangle = triangle || std::find(ends.begin(), ends.end(), i) != ends.end();
        }
    without_triangle += !triangle;
    ++drawn[w.dense()];
  }
  CHECK(without_triangle == Approx(1000).margin(120));  // standard deviation 29
  REQUIRE(drawn.size() == 70);
  double chi_squared = 0;  // 69 degrees of freedom: mean 69, standard deviation 12
  for (const auto& [graph, count] : drawn) chi_squared += std::pow(count - 100, 2) / 100.0;
  CHECK(chi_squared < 120);
}

TEST_CASE("random_regular makes large graphs") {
  for (const std::size_t degree : {2, 3, 20, 250, 500}) {
    CAPTURE(degree);
    REQUIRE(regular(512, degree, 7).at(0).in(100).size() == degree);
  }
}

}  // namespace gossamer::topology::test
