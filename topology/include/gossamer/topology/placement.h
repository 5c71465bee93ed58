#pragma once
// Graphs for links that are not alike: which peer stands where, and which links to use at all.
#include <functional>
#include <span>
#include <vector>

#include "gossamer/topology/cost.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

/// order[i]: who stands at place i of a graph.
using Order = std::vector<PeerId>;

/// A closed tour of all peers whose bottleneck edge is cheap, and of such tours one with a small sum; an edge
/// costs links.seconds(a, b, bytes). By 2-opt and or-opt (Croes 1958; Or 1976) on sums of rising powers of
/// the costs, which turn from the sum into the bottleneck edge. Begins with peer 0.
Order cheap_ring(const LinkTable& links, double bytes);

/// Peers with cheap links between them stand side by side: the leaves of single-linkage clustering, which
/// merges along the edges of a minimum spanning tree.
Order by_nearness(const LinkTable& links, double bytes);

/// A better order: swaps of two peers while one lowers the cost, from each start; the best is kept. cost is
/// asked at most `most` times, or once for each start.
Order place(std::span<const Order> starts, const std::function<double(const Order&)>& cost, std::size_t most);

/// What is worth a try for that many peers: kinds of graph_table() with their parameters, each valid.
std::vector<GraphSpec> candidate_graphs(std::size_t peers);

/// Sparse graphs of cheap links (kind edges): a minimum spanning tree, which has the cheapest bottleneck edge
/// of all connected graphs, and on top the cheapest other edges up to a limit of cost and, for some, of
/// degree; one graph for each of a few limits. They name the table's peers as they are, and need no
/// placement.
std::vector<GraphSpec> candidate_edges(const LinkTable& links, double bytes);

/// The ends of the longest of all shortest paths, in edges; of the union over a period.
std::size_t diameter(const Schedule& schedule);

}  // namespace gossamer::topology
