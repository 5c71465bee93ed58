// Random kinds but random_regular: static ones, and cycles of rounds drawn from one seed.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "connectivity.h"
#include "graph.h"
#include "random.h"

namespace gossamer::topology {
namespace {

constexpr int kAttempts = 1000;

PeerId peer(std::size_t i) { return static_cast<PeerId>(i); }

bool chance(SplitMix64& random, double probability) {
  return static_cast<double>(random.next() >> 11) * 0x1p-53 < probability;
}

bool connected(const Graph& graph) {
  std::vector<std::vector<PeerId>> joined(graph.peers());
  for (std::size_t i = 0; i < graph.peers(); ++i)
    for (const Edge& e : graph.in()[i]) joined[i].push_back(e.peer);
  return strong_components(joined).size() == 1;
}

void check_probability(const GraphSpec& spec) {
  if (spec.probability >= 0 && spec.probability <= 1) return;
  throw GraphError(spec.kind + ": probability " + std::to_string(spec.probability) +
                   "; expected a number from 0 to 1");
}

/// The first connected one of many draws.
template <class Draw>
std::vector<Graph> connected_draw(const GraphSpec& spec, double probability, const Draw& draw) {
  SplitMix64 random(spec.seed);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Graph graph = draw(random);
    if (connected(graph)) return {std::move(graph)};
  }
  throw GraphError(spec.kind + ": no connected graph of " + std::to_string(spec.peers) +
                   " peers was found in " + std::to_string(kAttempts) + " draws with probability " +
                   std::to_string(probability) + "; use a larger one");
}

std::size_t rounds_of(const GraphSpec& spec) {
  if (spec.period == 0) throw GraphError(spec.kind + ": period 0 has no round; expected at least 1");
  return spec.peers == 1 ? 1 : spec.period;
}

/// Erdős & Rényi (1959): every pair is joined with the same probability. Above ln P / P such graphs are
/// mostly connected; the default is twice that.
std::vector<Graph> erdos_renyi(const GraphSpec& spec) {
  check_probability(spec);
  if (spec.peers == 1) return {Graph(1)};
  const auto n = static_cast<double>(spec.peers);
  const double probability = spec.probability > 0 ? spec.probability : std::min(1.0, 2 * std::log(n) / n);
  return connected_draw(spec, probability, [&](SplitMix64& random) {
    Graph graph(spec.peers);
    for (std::size_t i = 0; i < spec.peers; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (chance(random, probability)) graph.edge(peer(i), peer(j));
    return graph;
  });
}

/// Edges of the ring in which every peer has `degree` neighbours (Harary 1962, "The maximum connectivity of a
/// graph"): the degree/2 nearest on each side, and for an odd degree the peer across the ring too. Where
/// peers and degree are both odd one peer has one more.
std::vector<std::pair<PeerId, PeerId>> ring_lattice(std::size_t peers, std::size_t degree) {
  std::vector<std::pair<PeerId, PeerId>> edges;
  for (std::size_t distance = 1; distance <= degree / 2; ++distance)
    for (std::size_t i = 0; i < peers; ++i) edges.emplace_back(peer(i), peer((i + distance) % peers));
  if (degree % 2 == 1)
    for (std::size_t i = 0; i < (peers + 1) / 2; ++i)
      edges.emplace_back(peer(i), peer((i + peers / 2) % peers));
  return edges;
}

/// Moves the far end of each edge with the given probability to a peer drawn from those that the near end is
/// not joined with; there are as many edges as before.
Graph rewired(std::vector<std::pair<PeerId, PeerId>> edges, std::size_t peers, double probability,
              SplitMix64& random) {
  std::vector<std::set<PeerId>> joined(peers);
  const auto join = [&](PeerId a, PeerId b) { joined[a].insert(b), joined[b].insert(a); };
  for (const auto& [a, b] : edges) join(a, b);
  for (auto& [near, far] : edges) {
    if (!chance(random, probability) || joined[near].size() == peers - 1) continue;
    PeerId other = near;
    while (other == near || joined[near].contains(other)) other = peer(random.below(peers));
    joined[near].erase(far);
    joined[far].erase(near);
    far = other;
    join(near, far);
  }
  Graph graph(peers);
  for (const auto& [a, b] : edges) graph.edge(a, b);
  return graph;
}

/// Watts & Strogatz (1998, "Collective dynamics of small-world networks"): a ring in which every peer has
/// `degree` neighbours, whose edges' far ends are moved to random peers with some probability (default 0.1).
std::vector<Graph> watts_strogatz(const GraphSpec& spec) {
  check_probability(spec);
  if (spec.peers == 1) return {Graph(1)};
  const std::size_t degree = std::min(spec.degree, spec.peers - 1);  // everyone with everyone
  if (degree < 2 && spec.peers > 2)
    throw GraphError("watts_strogatz: degree " + std::to_string(spec.degree) + " with " +
                     std::to_string(spec.peers) + " peers is no ring; expected a degree of at least 2");
  const double probability = spec.probability > 0 ? spec.probability : 0.1;
  return connected_draw(spec, probability, [&](SplitMix64& random) {
    return rewired(ring_lattice(spec.peers, degree), spec.peers, probability, random);
  });
}

/// A random perfect matching each round (Boyd et al. 2006, "Randomized gossip algorithms", in its synchronous
/// form); of an odd number one peer rests.
std::vector<Graph> matching(const GraphSpec& spec) {
  SplitMix64 random(spec.seed);
  std::vector<PeerId> order(spec.peers);
  std::iota(order.begin(), order.end(), PeerId{0});
  std::vector<Graph> cycle(rounds_of(spec), Graph(spec.peers));
  for (Graph& graph : cycle) {
    shuffle(std::span(order), random);
    for (std::size_t i = 0; i + 1 < spec.peers; i += 2) graph.edge(order[i], order[i + 1]);
  }
  return cycle;
}

/// OD-EquiDyn (Song et al. 2022, "Communication-efficient topologies for decentralized learning with O(1)
/// consensus rate", algorithm 3): each round every peer receives from the peer at one random distance u ≠ 0,
/// at η(P−1)/P, with η = ½. The error shrinks in expectation by the same factor for every P.
std::vector<Graph> equi_dyn(const GraphSpec& spec) {
  SplitMix64 random(spec.seed);
  std::vector<Graph> cycle(rounds_of(spec), Graph(spec.peers));
  if (spec.peers == 1) return cycle;
  const auto n = static_cast<double>(spec.peers);
  const auto weight = static_cast<float>(0.5 * (n - 1) / n);
  for (Graph& graph : cycle) {
    const auto distance = static_cast<std::size_t>(1 + random.below(spec.peers - 1));
    for (std::size_t i = 0; i < spec.peers; ++i)
      graph.arc(peer((i + distance) % spec.peers), peer(i), weight);
  }
  return cycle;
}

/// Epidemic learning (de Vos et al. 2023, "Epidemic learning: boosting decentralized learning with randomized
/// communication", EL-Local): each round every peer sends to `degree` others drawn at random; each averages
/// what came with its own. Rows sum to 1, columns in expectation only.
std::vector<Graph> epidemic(const GraphSpec& spec) {
  if (spec.peers > 1 && (spec.degree == 0 || spec.degree >= spec.peers))
    throw GraphError("epidemic: each of " + std::to_string(spec.peers) + " peers sends to " +
                     std::to_string(spec.degree) + " others; expected a degree from 1 to " +
                     std::to_string(spec.peers - 1));
  SplitMix64 random(spec.seed);
  std::vector<PeerId> others(spec.peers);
  std::vector<Graph> cycle(rounds_of(spec), Graph(spec.peers));
  for (Graph& graph : cycle)
    for (std::size_t from = 0; from < spec.peers && spec.peers > 1; ++from) {
      std::iota(others.begin(), others.end(), PeerId{0});
      std::swap(others[from], others.back());
      for (std::size_t drawn = 0; drawn < spec.degree; ++drawn) {
        std::swap(others[drawn], others[drawn + random.below(spec.peers - 1 - drawn)]);
        graph.arc(peer(from), others[drawn]);
      }
    }
  return cycle;
}

void of_degrees_in_sixteen_rounds(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  std::vector<GraphSpec> rounds;
  in_sixteen_rounds(spec, rounds);
  of_degrees<2, 4>(rounds.front(), out);
}

}  // namespace

constinit const GraphRow kErdosRenyi{
    .listed = {"erdos_renyi", "every pair with the same probability, connected (probability, seed)",
               "weights probability seed"},
    .make = erdos_renyi};

constinit const GraphRow kWattsStrogatz{
    .listed = {"watts_strogatz",
               "a ring of degree nearest neighbours with some ends moved (degree, probability, seed)",
               "weights degree probability seed"},
    .make = watts_strogatz};

constinit const GraphRow kMatching{.listed = {"matching",
                                              "random pairs each round (period, seed)",
                                              "weights period seed",
                                              {.time_varying = true}},
                                   .make = matching,
                                   .candidates = in_sixteen_rounds};

constinit const GraphRow kEquiDyn{.listed = {"equi_dyn",
                                             "each round from the peer at one random distance (period, seed)",
                                             "period seed",
                                             {.time_varying = true}},
                                  .make = equi_dyn,
                                  .weights = GraphRow::Weights::of_its_own,
                                  .candidates = in_sixteen_rounds};

constinit const GraphRow kEpidemic{
    .listed = {"epidemic",
               "each round to degree random others; rows sum to 1 only (degree, period, seed)",
               "degree period seed",
               {.time_varying = true}},
    .make = epidemic,
    .weights = GraphRow::Weights::by_in_degree,
    .candidates = of_degrees_in_sixteen_rounds};

}  // namespace gossamer::topology
