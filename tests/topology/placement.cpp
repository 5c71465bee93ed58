// Rings, orders and sparse graphs on links that are not alike, against the best of all.
#include "gossamer/topology/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

constexpr double kBytes = 1e6;

/// Bandwidths from 1 to 100 Mbit/s, evenly in their logarithm.
LinkTable random_links(std::size_t peers, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(0, 2), milliseconds(1, 50);
  LinkTable links(peers, {1, 0});
  for (PeerId a = 0; a < peers; ++a)
    for (PeerId b = a + 1; b < peers; ++b)
      links.at(a, b) = links.at(b, a) = {1e6 * std::pow(10, exponent(random)), 1e-3 * milliseconds(random)};
  return links;
}

/// Two sites with fast links inside and slow ones between; even peers are one site.
LinkTable two_sites(std::size_t peers) {
  LinkTable links(peers, {1e6, 0.05});
  for (PeerId a = 0; a < peers; ++a)
    for (PeerId b = 0; b < peers; ++b)
      if (a % 2 == b % 2) links.at(a, b) = {1e9, 1e-4};
  return links;
}

double dearest_edge(const LinkTable& links, const Order& ring) {
  double most = 0;
  for (std::size_t i = 0; i < ring.size(); ++i)
    most = std::max(most, links.seconds(ring[i], ring[(i + 1) % ring.size()], kBytes));
  return most;
}

bool is_permutation_of_all(Order order, std::size_t peers) {
  std::sort(order.begin(), order.end());
  Order all(peers);
  std::iota(all.begin(), all.end(), PeerId{0});
  return order == all;
}

double seconds_of(const Traffic& traffic, const LinkTable& links) {
  const std::vector<double> step(links.peers(), 0.01);
  return round_cost(traffic, step, links).seconds;
}

/// The least over all orders that begin with peer 0; of mirror images one is enough.
double best_of_all(std::size_t peers, const std::function<double(const Order&)>& cost) {
  Order order(peers);
  std::iota(order.begin(), order.end(), PeerId{0});
  double least = INFINITY;
  do {
    if (order[1] < order.back()) least = std::min(least, cost(order));
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return least;
}

}  // namespace

TEST_CASE("the ring's bottleneck edge is that of the best ring, or close") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const LinkTable links = random_links(8, seed);
    const Order ring = cheap_ring(links, kBytes);
    REQUIRE(is_permutation_of_all(ring, 8));
    const double best = best_of_all(8, [&](const Order& o) { return dearest_edge(links, o); });
    CHECK(dearest_edge(links, ring) <= 1.1 * best);
  }
}

TEST_CASE("a ring all-reduce is placed within a tenth of the best of all rings") {
  const Traffic traffic = ring_traffic(8, std::vector<Part>{{1, kBytes}}, {});
  for (unsigned seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    const LinkTable links = random_links(8, seed);
    const auto cost = [&](const Order& o) { return seconds_of(traffic, links.placed(o)); };
    const Order start = cheap_ring(links, kBytes / 8);
    CHECK(cost(place(std::span(&start, 1), cost, 1000)) <= 1.1 * best_of_all(8, cost));
  }
}

TEST_CASE("small rings") {
  for (const std::size_t peers : {1, 2, 3, 4, 5})
    REQUIRE(is_permutation_of_all(cheap_ring(random_links(peers, 1), kBytes), peers));
}

TEST_CASE("large rings take no time") {
  const LinkTable links = random_links(200, 1);
  const Order ring = cheap_ring(links, kBytes);
  REQUIRE(is_permutation_of_all(ring, 200));
  // In a random table every peer has fast links enough for a ring of them.
  REQUIRE(dearest_edge(links, ring) < 0.3);
}

TEST_CASE("sites stand together") {
  const Order order = by_nearness(two_sites(8), kBytes);
  REQUIRE(is_permutation_of_all(order, 8));
  for (const std::size_t i : {1, 2, 3, 5, 6, 7}) REQUIRE(order[i] % 2 == order[i - 1] % 2);
  // and a ring crosses between them twice only
  const Order ring = cheap_ring(two_sites(8), kBytes);
  int crossings = 0;
  for (std::size_t i = 0; i < 8; ++i) crossings += ring[i] % 2 != ring[(i + 1) % 8] % 2;
  REQUIRE(crossings == 2);
}

TEST_CASE("a better place for the hub of a star is found") {
  LinkTable links(6, {1e6, 0});
  for (PeerId p = 0; p < 6; ++p) links.at(4, p) = links.at(p, 4) = {1e8, 0};
  const Traffic star = gossip_traffic(make_schedule(spec_of("star", 6)), std::vector<Part>{{1, kBytes}}, {});
  const auto cost = [&](const Order& o) { return seconds_of(star, links.placed(o)); };
  const Order start{0, 1, 2, 3, 4, 5};
  std::size_t asked = 0;
  const Order placed = place(
      std::span(&start, 1),
      [&](const Order& o) {
        ++asked;
        return cost(o);
      },
      60);
  REQUIRE(placed[0] == 4);
  REQUIRE(asked <= 60);
  REQUIRE(cost(placed) < 0.1 * cost(start));
}

TEST_CASE("sparse graphs are connected and use the cheapest links that connect") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const LinkTable links = random_links(8, seed);
    const std::vector<GraphSpec> specs = candidate_edges(links, kBytes);
    REQUIRE(specs.size() > 3);
    double least = INFINITY;
    for (const GraphSpec& spec : specs) {
      double dearest = 0;
      for (const auto& e : spec.edges) dearest = std::max(dearest, links.seconds(e.from, e.to, kBytes));
      least = std::min(least, dearest);
      REQUIRE(make_schedule(spec).at(0).symmetric());
    }
    // No spanning tree has a cheaper bottleneck edge than a ring's at best, and these not a dearer one.
    const double ring = best_of_all(8, [&](const Order& o) { return dearest_edge(links, o); });
    REQUIRE(least <= ring);
  }
  REQUIRE(candidate_edges(random_links(2, 1), kBytes).empty());
}

TEST_CASE("candidates are valid for any number of peers") {
  for (const std::size_t peers : {2, 3, 4, 5, 6, 7, 8, 12, 16, 33}) {
    CAPTURE(peers);
    const std::vector<GraphSpec> specs = candidate_graphs(peers);
    REQUIRE(specs.size() >= 3);
    for (const GraphSpec& spec : specs) REQUIRE(make_schedule(spec).peers() == peers);
  }
}

TEST_CASE("diameters of known graphs") {
  REQUIRE(diameter(make_schedule(spec_of("ring", 8))) == 4);
  REQUIRE(diameter(make_schedule(spec_of("full", 8))) == 1);
  REQUIRE(diameter(make_schedule(spec_of("star", 8))) == 2);
  REQUIRE(diameter(make_schedule(spec_of("ring", 1))) == 0);
}

}  // namespace gossamer::topology::test
