// Mixing matrices: metropolis, uniform, explicit, and what the constructor does with any.
#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {

TEST_CASE("metropolis weights are symmetric and doubly stochastic on undirected graphs") {
  for (const char* kind : {"ring", "torus", "full", "star", "random_regular", "edges", "exponential"})
    for (const std::size_t peers : kPeers) {
      CAPTURE(kind, peers);
      GraphSpec spec = spec_of(kind, peers);
      spec.directed = false;
      const Schedule schedule = make_schedule(spec);
      REQUIRE(schedule.at(0).symmetric());
      REQUIRE(schedule.at(0).doubly_stochastic());
    }
}

TEST_CASE("metropolis weights follow the larger degree") {
  // 0-1, 1-2, 1-3, 2-3: degrees 1, 3, 2, 2
  const Schedule schedule =
      make_schedule(edges_spec(4, {{0, 1, {}}, {1, 2, {}}, {1, 3, {}}, {2, 3, {}}}, "metropolis", false));
  const MixingMatrix& w = schedule.at(0);
  REQUIRE(w.in(0).front().weight == Approx(0.25));
  REQUIRE(w.self_weight(0) == Approx(0.75));
  REQUIRE(w.self_weight(1) == Approx(0.25));
  REQUIRE(w.in(2)[1] == Edge{3, 1.0F / 3});
  REQUIRE(w.self_weight(2) == Approx(1 - 0.25 - 1.0 / 3));
}

TEST_CASE("metropolis weights of a directed graph are its in-degree weights where they average") {
  const Schedule cycle =
      make_schedule(edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {2, 0, {}}}, "metropolis", true));
  REQUIRE(cycle.at(0).dense() == std::vector<double>{0.5, 0, 0.5, 0.5, 0.5, 0, 0, 0.5, 0.5});
  REQUIRE_FALSE(cycle.at(0).symmetric());
  REQUIRE(cycle.at(0).doubly_stochastic());
}

TEST_CASE("lazy weights are halfway between metropolis weights and none") {
  for (const char* kind : {"ring", "star", "hypercube", "exponential", "matching"}) {
    CAPTURE(kind);
    GraphSpec spec = spec_of(kind, 8);
    const Schedule whole = make_schedule(spec);
    spec.weights = "lazy";
    const Schedule half = make_schedule(spec);
    for (Round t = 0; t < whole.period(); ++t) {
      const auto w = whole.at(t).dense(), l = half.at(t).dense();
      for (std::size_t i = 0; i < 64; ++i)
        REQUIRE(l[i] == Approx((w[i] + (i % 9 == 0 ? 1 : 0)) / 2).margin(1e-6));
    }
  }
}

TEST_CASE("uniform weights are equal over a row") {
  GraphSpec spec = spec_of("star", 4);
  spec.weights = "uniform";
  const Schedule star = make_schedule(spec);
  REQUIRE(star.at(0).self_weight(0) == Approx(0.25));
  REQUIRE(star.at(0).self_weight(1) == Approx(0.5));
  REQUIRE(star.at(0).in(1).front() == Edge{0, 0.5F});
  REQUIRE_FALSE(star.at(0).symmetric());
  REQUIRE_FALSE(star.at(0).doubly_stochastic());
}

TEST_CASE("explicit weights are taken as listed") {
  const Schedule directed = make_schedule(edges_spec(2, {{0, 1, 0.25F}, {1, 0, 1.0F}}, "explicit", true));
  REQUIRE(directed.at(0).dense() == std::vector<double>{0, 1, 0.25, 0.75});
  const Schedule undirected = make_schedule(edges_spec(3, {{0, 1, 0.5F}, {2, 1, 0.25F}}, "explicit", false));
  REQUIRE(undirected.at(0).dense() == std::vector<double>{0.5, 0.5, 0, 0.5, 0.25, 0.25, 0, 0.25, 0.75});
}

TEST_CASE("a mixing matrix sorts its rows and drops zeros") {
  const MixingMatrix w({{{2, 0.25F}, {1, 0.5F}}, {{0, 0.0F}}, {{0, 1.0F}}});
  REQUIRE(w.in(0).size() == 2);
  REQUIRE(w.in(0)[0] == Edge{1, 0.5F});
  REQUIRE(w.in(0)[1] == Edge{2, 0.25F});
  REQUIRE(w.self_weight(0) == 0.25F);
  REQUIRE(w.in(1).empty());
  REQUIRE(w.self_weight(1) == 1);
  REQUIRE(w.self_weight(2) == 0);
  REQUIRE(w.out(0).size() == 1);
  REQUIRE(w.out(0)[0] == 2);
}

TEST_CASE("a row may exceed 1 by rounding") {
  const float third = 1.0F / 3;  // rounded up
  const MixingMatrix w({{{1, third}, {2, third}, {3, third}}, {}, {}, {}});
  REQUIRE(w.self_weight(0) == 0);
}

}  // namespace gossamer::topology::test
