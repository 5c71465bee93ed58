// Who is joined to whom in each kind.
#include <cmath>
#include <set>

#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

using Peers = std::vector<PeerId>;

Peers out(const Schedule& schedule, PeerId i, Round t = 0) {
  const auto peers = schedule.at(t).out(i);
  return {peers.begin(), peers.end()};
}

/// Σ_j W_ij x_j, `rounds` times.
std::vector<double> mix(const Schedule& schedule, std::vector<double> x, Round rounds) {
  for (Round r = 0; r < rounds; ++r) {
    const MixingMatrix& w = schedule.at(r);
    std::vector<double> next(x.size());
    for (PeerId i = 0; i < x.size(); ++i) {
      next[i] = static_cast<double>(w.self_weight(i)) * x[i];
      for (const Edge& e : w.in(i)) next[i] += static_cast<double>(e.weight) * x[e.peer];
    }
    x.swap(next);
  }
  return x;
}

double squared_distance(const std::vector<double>& x, double value) {
  double sum = 0;
  for (const double v : x) sum += (v - value) * (v - value);
  return sum;
}

}  // namespace

TEST_CASE("ring joins neighbours") {
  const Schedule ring = make_schedule(spec_of("ring", 5));
  REQUIRE(out(ring, 0) == Peers{1, 4});
  REQUIRE(out(ring, 3) == Peers{2, 4});
  REQUIRE(out(make_schedule(spec_of("ring", 2)), 0) == Peers{1});
}

TEST_CASE("full joins all and star joins peer 0 with the others") {
  REQUIRE(out(make_schedule(spec_of("full", 4)), 2) == Peers{0, 1, 3});
  const Schedule star = make_schedule(spec_of("star", 4));
  REQUIRE(out(star, 0) == Peers{1, 2, 3});
  REQUIRE(out(star, 3) == Peers{0});
}

TEST_CASE("torus wraps around in both directions") {
  GraphSpec spec = spec_of("torus", 12);  // 3 rows of 4
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 3, 4, 8});
  spec.rows = 2;  // 2 rows of 6: up and down are the same peer
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 5, 6});
  spec.rows = 6;
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2, 10});
  for (const std::size_t rows : {1, 12}) {  // a ring
    spec.rows = rows;
    REQUIRE(out(make_schedule(spec), 0) == Peers{1, 11});
  }
  spec = spec_of("torus", 4);  // 2 rows of 2: a ring of 4
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2});
  spec = spec_of("torus", 7);  // a prime: one row
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 6});
}

TEST_CASE("exponential sends to peers at powers of two") {
  GraphSpec spec = spec_of("exponential", 8);
  REQUIRE(out(make_schedule(spec), 1) == Peers{2, 3, 5});
  spec.directed = false;
  REQUIRE(out(make_schedule(spec), 1) == Peers{0, 2, 3, 5, 7});
  REQUIRE(make_schedule(spec).at(0).symmetric());
  REQUIRE(out(make_schedule(spec_of("exponential", 5)), 0) == Peers{1, 2, 4});
}

TEST_CASE("one_peer_exponential sends to one peer per round") {
  const Schedule schedule = make_schedule(spec_of("one_peer_exponential", 5));
  REQUIRE(schedule.period() == 3);
  for (Round t = 0; t < 9; ++t)
    for (PeerId i = 0; i < 5; ++i) {
      REQUIRE(out(schedule, i, t) == Peers{static_cast<PeerId>((i + (1U << (t % 3))) % 5)});
      REQUIRE(schedule.at(t).self_weight(i) == 0.5F);
      REQUIRE(schedule.at(t).in(i).front().weight == 0.5F);
    }
  REQUIRE(schedule.links(0) == Peers{1, 2, 3, 4});
}

TEST_CASE("edges go one way or both") {
  GraphSpec spec = edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {2, 0, {}}}, "metropolis", true);
  REQUIRE(out(make_schedule(spec), 0) == Peers{1});
  spec.directed = false;
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2});
  spec.kind = "file";
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2});
}

TEST_CASE("undirected edges may be listed in both directions") {
  const Schedule both = make_schedule(edges_spec(2, {{0, 1, 0.25F}, {1, 0, 0.25F}}, "explicit", false));
  REQUIRE(both.at(0).dense() == std::vector<double>{0.75, 0.25, 0.25, 0.75});
  // Weights that are not asked for may differ.
  REQUIRE_NOTHROW(make_schedule(edges_spec(2, {{0, 1, 0.25F}, {1, 0, 0.5F}}, "metropolis", false)));
}

TEST_CASE("a graph that may fall apart does into parts that are connected in themselves") {
  GraphSpec spec = edges_spec(5, {{0, 3, {}}, {1, 4, {}}}, "metropolis", false);
  REQUIRE_FALSE(error_of([&] { make_schedule(spec); }).empty());
  spec.may_fall_apart = true;
  REQUIRE(out(make_schedule(spec), 3) == Peers{0});
  REQUIRE(out(make_schedule(spec), 2).empty());
  spec.directed = true;  // 3 hears 0, and nobody hears 3
  spec.weights = "uniform";
  REQUIRE_FALSE(error_of([&] { make_schedule(spec); }).empty());
}

TEST_CASE("a tree joins parents with children") {
  GraphSpec spec = spec_of("tree", 7);
  spec.degree = 2;
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2});
  REQUIRE(out(make_schedule(spec), 1) == Peers{0, 3, 4});
  REQUIRE(out(make_schedule(spec), 6) == Peers{2});
  spec.degree = 1;  // a line
  REQUIRE(out(make_schedule(spec), 3) == Peers{2, 4});
}

TEST_CASE("a hypercube joins numbers that differ in one bit") {
  REQUIRE(out(make_schedule(spec_of("hypercube", 8)), 5) == Peers{1, 4, 7});
  REQUIRE(contains(error_of([] { make_schedule(spec_of("hypercube", 6)); }), "such as 8"));
}

TEST_CASE("base reaches exact consensus within its period, with few neighbours a round") {
  for (std::size_t degree = 1; degree <= 4; ++degree)
    for (std::size_t peers = 2; peers <= 70; ++peers) {
      CAPTURE(degree, peers);
      GraphSpec spec = spec_of("base", peers);
      spec.degree = degree;
      const Schedule schedule = make_schedule(spec);
      for (Round t = 0; t < schedule.period(); ++t) {
        REQUIRE(schedule.at(t).symmetric());
        REQUIRE(schedule.at(t).doubly_stochastic());
        for (PeerId i = 0; i < peers; ++i) REQUIRE(schedule.at(t).out(i).size() <= degree);
      }
      std::vector<double> x(peers);
      for (std::size_t i = 0; i < peers; ++i) x[i] = i % 3 == 0 ? 1.0 : -0.5 * static_cast<double>(i % 5);
      double mean = 0;
      for (const double v : x) mean += v / static_cast<double>(peers);
      const std::vector<double> mixed = mix(schedule, x, schedule.period());
      for (const double v : mixed) REQUIRE(v == Approx(mean).margin(1e-6));
      // Takezawa et al. 2023, theorem 1: at most 2 log_(k+1) P + 2 rounds.
      const double bound =
          2 * std::log(static_cast<double>(peers)) / std::log(static_cast<double>(degree + 1)) + 2;
      REQUIRE(static_cast<double>(schedule.period()) <= bound);
    }
}

TEST_CASE("a matching joins all in pairs, differently each round") {
  GraphSpec spec = spec_of("matching", 9);
  spec.period = 20;
  const Schedule schedule = make_schedule(spec);
  REQUIRE(schedule.period() == 20);
  std::set<std::vector<double>> different;
  for (Round t = 0; t < 20; ++t) {
    std::size_t alone = 0;
    for (PeerId i = 0; i < 9; ++i) {
      REQUIRE(schedule.at(t).out(i).size() <= 1);
      alone += schedule.at(t).out(i).empty() ? 1 : 0;
    }
    REQUIRE(alone == 1);
    different.insert(schedule.at(t).dense());
  }
  REQUIRE(different.size() > 10);
}

TEST_CASE("equi_dyn has one message per peer and round, and contracts alike for few and many peers") {
  for (const std::size_t peers : {8, 32, 128}) {
    const Schedule schedule = make_schedule(spec_of("equi_dyn", peers));
    for (Round t = 0; t < schedule.period(); ++t)
      for (PeerId i = 0; i < peers; ++i) REQUIRE(schedule.at(t).out(i).size() == 1);
    // In expectation the squared error shrinks by a half each round; at the start it is below 1.
    std::vector<double> x(peers);
    x[0] = 1;
    REQUIRE(squared_distance(mix(schedule, x, 20), 1.0 / static_cast<double>(peers)) < 1e-3);
  }
}

TEST_CASE("hierarchical averages inside its groups and joins their first peers") {
  GraphSpec spec = spec_of("hierarchical", 10);
  spec.groups = 3;  // peers 0-2, 3-5, 6-9
  const Schedule schedule = make_schedule(spec);
  REQUIRE(schedule.period() == 2);
  REQUIRE(out(schedule, 4, 0) == Peers{3, 5});
  REQUIRE(out(schedule, 6, 0) == Peers{7, 8, 9});
  REQUIRE(out(schedule, 6, 1) == Peers{0, 3});
  REQUIRE(out(schedule, 7, 1).empty());
  REQUIRE(schedule.at(0).self_weight(9) == Approx(0.25));
  spec.groups = 11;
  REQUIRE(contains(error_of([&] { make_schedule(spec); }), "at most one group per peer"));
}

TEST_CASE("random kinds follow their seed and their probability") {
  for (const char* kind : {"erdos_renyi", "watts_strogatz", "matching", "equi_dyn"}) {
    CAPTURE(kind);
    GraphSpec a = spec_of(kind, 16);
    a.probability = 0.5;
    GraphSpec b = a;
    b.seed = 2;
    const Schedule first = make_schedule(a), second = make_schedule(b);
    bool differs = false;
    for (Round t = 0; t < first.period(); ++t) differs |= first.at(t).dense() != second.at(t).dense();
    REQUIRE(differs);
  }
  GraphSpec spec = spec_of("erdos_renyi", 6);
  spec.probability = 1;
  REQUIRE(out(make_schedule(spec), 2) == Peers{0, 1, 3, 4, 5});
  spec.probability = 1e-9;
  REQUIRE(contains(error_of([&] { make_schedule(spec); }), "use a larger one"));
  spec = spec_of("watts_strogatz", 12);
  spec.degree = 4;
  spec.probability = 1e-12;
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 2, 10, 11});
}

TEST_CASE("watts_strogatz has as many edges as its degree says, however many are moved") {
  for (const std::size_t peers : {2, 3, 4, 5, 6, 7, 12, 33})
    for (const std::size_t degree : {2, 3, 4, 5})
      for (const double probability : {1e-12, 0.1, 0.5, 1.0}) {
        CAPTURE(peers, degree, probability);
        GraphSpec spec = spec_of("watts_strogatz", peers);
        spec.degree = degree;
        spec.probability = probability;
        const Schedule schedule = make_schedule(spec);
        const std::size_t each = std::min(degree, peers - 1);
        std::size_t ends = 0;
        for (PeerId i = 0; i < peers; ++i) {
          ends += out(schedule, i).size();
          if (probability < 0.01) REQUIRE(out(schedule, i).size() - each <= (peers * each) % 2);
        }
        REQUIRE(ends == peers * each + (peers * each) % 2);
      }
  GraphSpec spec = spec_of("watts_strogatz", 12);
  spec.probability = 1e-12;
  REQUIRE(out(make_schedule(spec), 0) == Peers{1, 6, 11});  // degree 3
  spec.degree = 1;
  REQUIRE(contains(error_of([&] { make_schedule(spec); }), "expected a degree of at least 2"));
}

}  // namespace gossamer::topology::test
