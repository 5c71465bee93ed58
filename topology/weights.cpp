#include <algorithm>
#include <array>

#include "graph.h"
#include "names.h"

namespace gossamer::topology {
namespace {

std::vector<std::vector<Edge>> in_degree_weights(const Graph& graph) {
  std::vector<std::vector<Edge>> rows = graph.in();
  for (std::vector<Edge>& row : rows)
    for (Edge& e : row) e.weight = 1.0F / static_cast<float>(1 + row.size());
  return rows;
}

MixingMatrix uniform(const Graph& graph) { return MixingMatrix(in_degree_weights(graph)); }

/// An arc whose reverse is missing; from == to where there is none.
std::pair<PeerId, PeerId> one_way_arc(const Graph& graph) {
  for (PeerId to = 0; to < graph.peers(); ++to)
    for (const Edge& e : graph.in()[to])
      if (!graph.has(to, e.peer)) return {e.peer, to};
  return {0, 0};
}

/// Xiao & Boyd (2004, "Fast linear iterations for distributed averaging"): symmetric, hence doubly
/// stochastic.
MixingMatrix metropolis(const Graph& graph) {
  if (const auto [from, to] = one_way_arc(graph); from != to) {
    MixingMatrix directed = uniform(graph);
    if (directed.doubly_stochastic()) return directed;
    throw GraphError(
        "weights 'metropolis' need an undirected graph or one whose in-degree weights average: edge " +
        std::to_string(from) + " -> " + std::to_string(to) +
        " has no reverse; use weights = \"uniform\" or \"explicit\", or directed = false");
  }
  std::vector<std::vector<Edge>> rows = graph.in();
  for (std::vector<Edge>& row : rows)
    for (Edge& e : row)
      e.weight = 1.0F / static_cast<float>(1 + std::max(row.size(), graph.in()[e.peer].size()));
  return MixingMatrix(std::move(rows));
}

/// Half of metropolis, the other half stays: no eigenvalue is negative.
MixingMatrix lazy(const Graph& graph) {
  const MixingMatrix whole = metropolis(graph);
  std::vector<std::vector<Edge>> rows(graph.peers());
  for (PeerId i = 0; i < graph.peers(); ++i)
    for (const Edge& e : whole.in(i)) rows[i].push_back({e.peer, e.weight / 2});
  return MixingMatrix(std::move(rows));
}

MixingMatrix explicit_weights(const Graph& graph) { return MixingMatrix(graph.in()); }

struct WeightRow {
  WeightRule listed;
  MixingMatrix (*make)(const Graph&);
};
constexpr std::array kRules{
    WeightRow{{"metropolis", "1 / (1 + the larger degree of the two): symmetric, so that the mean stays"},
              metropolis},
    WeightRow{{"lazy", "half of metropolis, for methods that need eigenvalues away from -1"}, lazy},
    WeightRow{{"uniform", "1 / (1 + in-degree): each row alike, for directed graphs"}, uniform},
    WeightRow{{"explicit", "as the edges state them"}, explicit_weights},
};

constexpr auto kListed = [] {
  std::array<WeightRule, kRules.size()> listed{};
  for (std::size_t i = 0; i < kRules.size(); ++i) listed[i] = kRules[i].listed;
  return listed;
}();

}  // namespace

std::span<const WeightRule> weights_table() { return kListed; }

MixingMatrix weigh(const Graph& graph, std::string_view weights) {
  std::array<std::string_view, kRules.size()> names;
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    names[i] = kRules[i].listed.name;
    if (names[i] == weights) return kRules[i].make(graph);
  }
  throw GraphError("weights '" + std::string(weights) + "' are unknown: expected one of " + joined(names),
                   weights, strings(names));
}

}  // namespace gossamer::topology
