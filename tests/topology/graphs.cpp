// Who is joined to whom in each kind.
#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

using Peers = std::vector<PeerId>;

Peers out(const Schedule& schedule, PeerId i, Round t = 0) {
  const auto peers = schedule.at(t).out(i);
  return {peers.begin(), peers.end()};
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

}  // namespace gossamer::topology::test
