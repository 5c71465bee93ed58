// Random graphs in which every peer has the same number of neighbours.
//
// Sparse graphs come from the configuration model as Steger & Wormald (1999, "Generating random regular
// graphs quickly") repair it: every peer has `degree` stubs, the stubs are shuffled and joined two by two, a
// pair that would be a self loop or a double edge goes back among the loose stubs, and those are shuffled
// again. Where they cannot be joined any more the graph is begun anew. Dense graphs are complements of sparse
// ones, since there the repair would hardly ever end. Degree 2 is a shuffled ring: of the other graphs of
// degree 2 none is connected.
//
// The repair favours some graphs over others; so pairs of edges then exchange ends many times (Milo et al.
// 2003, "On the uniform generation of random graphs with prescribed degree sequences"): each exchange is as
// likely as its reverse, so that in the long run all graphs are equally likely, and of those the connected
// ones.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "connectivity.h"
#include "graph.h"
#include "random.h"

namespace gossamer::topology {
namespace {

constexpr int kAttempts = 10000;
constexpr std::size_t kExchanges = 10, kLeastExchanges = 1000;  // an edge; in all
constexpr int kIdlePasses = 20;  // shuffles that join nothing before the graph is begun anew

void check_degree(std::size_t peers, std::size_t degree) {
  const std::string found =
      "random_regular: degree " + std::to_string(degree) + " with " + std::to_string(peers) + " peers";
  if (degree == 0) throw GraphError(found + " joins nobody; expected a degree of at least 1");
  if (degree >= peers)
    throw GraphError(found + "; expected a degree below the number of peers: at most " +
                     std::to_string(peers - 1));
  if (degree == 1 && peers > 2)
    throw GraphError(found + " joins pairs only, which is not connected; expected a degree of at least 2");
  if (degree % 2 == 1 && peers % 2 == 1)
    throw GraphError(found + " does not exist: one of the two must be even; use degree " +
                     std::to_string(degree - 1) + " or " + std::to_string(peers + 1) + " peers");
}

Graph shuffled_ring(std::size_t peers, SplitMix64& random) {
  std::vector<PeerId> order(peers);
  std::iota(order.begin(), order.end(), PeerId{0});
  shuffle(std::span(order), random);
  Graph graph(peers);
  for (std::size_t i = 0; i < peers; ++i) graph.edge(order[i], order[(i + 1) % peers]);
  return graph;
}

std::optional<Graph> join_stubs(std::size_t peers, std::size_t degree, SplitMix64& random) {
  std::vector<PeerId> loose;
  for (std::size_t i = 0; i < peers; ++i) loose.insert(loose.end(), degree, static_cast<PeerId>(i));
  Graph graph(peers);
  for (int idle = 0; !loose.empty() && idle < kIdlePasses;) {
    shuffle(std::span(loose), random);
    std::vector<PeerId> left;
    for (std::size_t s = 0; s + 1 < loose.size(); s += 2) {
      const PeerId a = loose[s], b = loose[s + 1];
      if (a == b || graph.has(a, b))
        left.insert(left.end(), {a, b});
      else
        graph.edge(a, b);
    }
    idle = left.size() == loose.size() ? idle + 1 : 0;
    loose = std::move(left);
  }
  if (!loose.empty()) return std::nullopt;
  return graph;
}

/// Edges as keys that a set can hold, whichever end comes first.
std::uint64_t key_of(PeerId a, PeerId b) { return (std::uint64_t{std::min(a, b)} << 32) | std::max(a, b); }

/// The graph after kExchanges exchanges an edge: edges a–b and c–d become a–d and c–b where both are new.
Graph switched(const Graph& graph, SplitMix64& random) {
  std::vector<std::pair<PeerId, PeerId>> edges;
  std::unordered_set<std::uint64_t> present;  // asked for its members only: their order shows nowhere
  for (PeerId to = 0; to < graph.peers(); ++to)
    for (const Edge& e : graph.in()[to])
      if (e.peer < to && present.insert(key_of(e.peer, to)).second) edges.emplace_back(e.peer, to);
  const std::size_t exchanges = edges.size() < 2 ? 0 : std::max(kLeastExchanges, kExchanges * edges.size());
  for (std::size_t n = 0; n < exchanges; ++n) {
    auto& [a, b] = edges[random.below(edges.size())];
    auto& [c, d] = edges[random.below(edges.size())];
    if (random.next() >> 63) std::swap(c, d);
    const std::uint64_t ad = key_of(a, d), cb = key_of(c, b);
    if (a == d || c == b || present.contains(ad) || present.contains(cb)) continue;
    present.erase(key_of(a, b));
    present.erase(key_of(c, d));
    present.insert(ad);
    present.insert(cb);
    std::swap(b, d);
  }
  Graph result(graph.peers());
  for (const auto& [a, b] : edges) result.edge(a, b);
  return result;
}

Graph complement(const Graph& graph) {
  Graph other(graph.peers());
  for (PeerId to = 0; to < graph.peers(); ++to)
    for (PeerId from = 0; from < graph.peers(); ++from)
      if (!graph.has(from, to)) other.arc(from, to);
  return other;
}

bool connected(const Graph& graph) {
  std::vector<std::vector<PeerId>> joined(graph.peers());
  for (std::size_t i = 0; i < graph.peers(); ++i)
    for (const Edge& e : graph.in()[i]) joined[i].push_back(e.peer);
  return strong_components(joined).size() == 1;
}

std::vector<Graph> random_regular(const GraphSpec& spec) {
  if (spec.peers == 1) return {Graph(1)};
  check_degree(spec.peers, spec.degree);
  SplitMix64 random(spec.seed);
  if (spec.degree == 2) return {shuffled_ring(spec.peers, random)};
  const std::size_t missing = spec.peers - 1 - spec.degree;
  const bool dense = missing < spec.degree;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::optional<Graph> graph = join_stubs(spec.peers, dense ? missing : spec.degree, random);
    if (graph) graph = switched(*graph, random);
    if (graph && dense) graph = complement(*graph);
    if (graph && connected(*graph)) return {*std::move(graph)};
  }
  throw GraphError("random_regular: no connected graph of degree " + std::to_string(spec.degree) + " with " +
                   std::to_string(spec.peers) + " peers was found from seed " + std::to_string(spec.seed) +
                   "; use another seed");
}

}  // namespace

constinit const GraphRow kRandomRegular{
    .listed = {"random_regular", "a random connected graph, every peer with degree neighbours (degree, seed)",
               "weights degree seed"},
    .make = random_regular,
    .candidates = of_degrees<3, 4, 6>};

}  // namespace gossamer::topology
