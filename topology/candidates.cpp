// Which graphs are worth a try.
#include <algorithm>
#include <bit>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/kruskal_min_spanning_tree.hpp>
#include <numeric>

#include "gossamer/topology/placement.h"
#include "graph.h"

namespace gossamer::topology {
namespace {

struct CostlyEdge {
  double cost;
  PeerId a, b;
};

std::vector<CostlyEdge> all_edges(const LinkTable& links, double bytes) {
  std::vector<CostlyEdge> edges;
  for (PeerId a = 0; a < links.peers(); ++a)
    for (PeerId b = a + 1; b < links.peers(); ++b) edges.push_back({links.seconds(a, b, bytes), a, b});
  std::stable_sort(edges.begin(), edges.end(),
                   [](const CostlyEdge& x, const CostlyEdge& y) { return x.cost < y.cost; });
  return edges;
}

/// Edges of a minimum spanning tree, ascending.
std::vector<CostlyEdge> spanning_tree(std::size_t peers, const std::vector<CostlyEdge>& edges) {
  using Weighted = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                                         boost::property<boost::edge_weight_t, double>>;
  Weighted graph(peers);
  for (const CostlyEdge& e : edges) boost::add_edge(e.a, e.b, e.cost, graph);
  std::vector<boost::graph_traits<Weighted>::edge_descriptor> kept;
  boost::kruskal_minimum_spanning_tree(graph, std::back_inserter(kept));
  std::vector<CostlyEdge> tree;
  for (const auto& e : kept)
    tree.push_back({boost::get(boost::edge_weight, graph, e), static_cast<PeerId>(boost::source(e, graph)),
                    static_cast<PeerId>(boost::target(e, graph))});
  return tree;
}

GraphSpec with_extra_edges(std::size_t peers, const std::vector<CostlyEdge>& tree,
                           const std::vector<CostlyEdge>& edges, double limit, std::size_t degree) {
  GraphSpec spec;
  spec.kind = "edges";
  spec.peers = peers;
  spec.directed = false;
  std::vector<std::size_t> degrees(peers, 0);
  std::vector<bool> joined(peers * peers, false);
  const auto add = [&](const CostlyEdge& e) {
    spec.edges.push_back({e.a, e.b, std::nullopt});
    joined[e.a * peers + e.b] = joined[e.b * peers + e.a] = true;
    ++degrees[e.a];
    ++degrees[e.b];
  };
  for (const CostlyEdge& e : tree) add(e);
  for (const CostlyEdge& e : edges)
    if (e.cost <= limit && !joined[e.a * peers + e.b] && degrees[e.a] < degree && degrees[e.b] < degree)
      add(e);
  return spec;
}

bool same_edges(const GraphSpec& a, const GraphSpec& b) {
  return std::equal(a.edges.begin(), a.edges.end(), b.edges.begin(), b.edges.end(),
                    [](const auto& x, const auto& y) { return x.from == y.from && x.to == y.to; });
}

}  // namespace

void as_it_is(const GraphSpec& spec, std::vector<GraphSpec>& out) { out.push_back(spec); }

void in_sixteen_rounds(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  out.push_back(spec);
  out.back().period = 16;
}

Order by_nearness(const LinkTable& links, double bytes) {
  const std::size_t peers = links.peers();
  std::vector<Order> clusters(peers);
  std::vector<std::size_t> home(peers);
  for (PeerId p = 0; p < peers; ++p) {
    clusters[p] = {p};
    home[p] = p;
  }
  for (const CostlyEdge& e : spanning_tree(peers, all_edges(links, bytes))) {
    Order &kept = clusters[home[e.a]], &gone = clusters[home[e.b]];
    for (const PeerId p : gone) home[p] = home[e.a];
    kept.insert(kept.end(), gone.begin(), gone.end());
    gone.clear();
  }
  return clusters[home[0]];
}

std::vector<GraphSpec> candidate_graphs(std::size_t peers) {
  std::vector<GraphSpec> specs;
  if (peers < 2) return specs;
  for (const GraphRow* row : graph_rows()) {
    GraphSpec spec;
    spec.kind = row->listed.name;
    spec.peers = peers;
    if (row->candidates) row->candidates(spec, specs);
  }
  std::erase_if(specs, [](const GraphSpec& spec) {
    try {
      return make_schedule(spec).peers() == 0;
    } catch (const GraphError&) {
      return true;  // this kind has no graph of that size
    }
  });
  return specs;
}

std::vector<GraphSpec> candidate_edges(const LinkTable& links, double bytes) {
  constexpr std::size_t kLimits = 10;
  const std::size_t peers = links.peers();
  if (peers < 3) return {};
  const std::vector<CostlyEdge> edges = all_edges(links, bytes);
  const std::vector<CostlyEdge> tree = spanning_tree(peers, edges);
  // From the tree's bottleneck edge, up to which further ones cost a round nothing, to the dearest of all.
  const auto first = std::find_if(edges.rbegin(), edges.rend(),
                                  [&](const CostlyEdge& e) { return e.cost <= tree.back().cost; })
                         .base() -
                     1;
  std::vector<GraphSpec> specs;
  for (std::size_t k = 0; k < kLimits; ++k) {
    const auto at = first + static_cast<std::ptrdiff_t>(k) * (edges.end() - 1 - first) / (kLimits - 1);
    for (const std::size_t degree : {std::size_t{2}, std::size_t{3}, std::size_t{4}, peers}) {
      GraphSpec spec = with_extra_edges(peers, tree, edges, at->cost, degree);
      const bool complete = spec.edges.size() == edges.size();  // the kind full
      if (!complete &&
          std::none_of(specs.begin(), specs.end(), [&](const auto& s) { return same_edges(s, spec); }))
        specs.push_back(std::move(spec));
    }
  }
  return specs;
}

std::size_t diameter(const Schedule& schedule) {
  std::size_t most = 0;
  for (PeerId start = 0; start < schedule.peers(); ++start) {
    std::vector<PeerId> reached{start};
    std::vector<std::size_t> distance(schedule.peers(), SIZE_MAX);
    distance[start] = 0;
    for (std::size_t k = 0; k < reached.size(); ++k)
      for (const PeerId next : schedule.links(reached[k]))
        if (distance[next] == SIZE_MAX) {
          distance[next] = distance[reached[k]] + 1;
          most = std::max(most, distance[next]);
          reached.push_back(next);
        }
  }
  return most;
}

}  // namespace gossamer::topology
