// The kinds `edges` and `file`: a graph given edge by edge.
#include <map>

#include "graph.h"

namespace gossamer::topology {
namespace {

using EdgeSpec = GraphSpec::EdgeSpec;

std::string arrow(const EdgeSpec& e) { return std::to_string(e.from) + " -> " + std::to_string(e.to); }

void check_edge(const EdgeSpec& e, std::size_t peers, bool explicit_weights) {
  for (const PeerId end : {e.from, e.to})
    if (end >= peers)
      throw GraphError("edge " + arrow(e) + ": there is no peer " + std::to_string(end) +
                       "; expected 0 ... " + std::to_string(peers - 1));
  if (e.from == e.to)
    throw GraphError("edge " + arrow(e) +
                     " is a self loop; leave it out: what a peer keeps of its own vector " +
                     "is 1 minus the weights of the edges that reach it");
  if (explicit_weights && !e.weight)
    throw GraphError("edge " + arrow(e) + " has no weight; weights = \"explicit\" need one on every edge, " +
                     "otherwise use \"metropolis\" or \"uniform\"");
}

std::vector<Graph> listed_edges(const GraphSpec& spec) {
  const bool explicit_weights = spec.weights == "explicit";
  Graph graph(spec.peers);
  std::map<std::pair<PeerId, PeerId>, const EdgeSpec*> listed;
  for (const EdgeSpec& e : spec.edges) {
    check_edge(e, spec.peers, explicit_weights);
    if (!listed.emplace(std::pair(e.from, e.to), &e).second)
      throw GraphError("edge " + arrow(e) + " is listed twice; leave one of them out");
    const auto reverse = listed.find({e.to, e.from});
    if (!spec.directed && explicit_weights && reverse != listed.end() &&
        *reverse->second->weight != *e.weight)
      throw GraphError("edge " + arrow(e) + " has weight " + std::to_string(*e.weight) + " but " +
                       arrow(*reverse->second) + " has " + std::to_string(*reverse->second->weight) +
                       "; with directed = false both must be equal, otherwise use directed = true");
    const float weight = e.weight.value_or(0.0F);
    graph.arc(e.from, e.to, weight);
    if (!spec.directed) graph.arc(e.to, e.from, weight);
  }
  return {graph};
}

}  // namespace

constinit const GraphRow kEdges{.listed = {"edges",
                                           "the listed edges (edges, directed)",
                                           "weights directed edges",
                                           {.edges_are_written = true}},
                                .make = listed_edges,
                                .weights = GraphRow::Weights::by_rule_or_explicit};

constinit const GraphRow kFile{
    .listed = {"file",
               "the edges of a file, one per line, as networkx writes them (directed)",
               "weights directed file",
               {.edges_are_written = true, .edges_are_in_a_file = true, .written_as = "edges"}},
    .make = listed_edges,
    .weights = GraphRow::Weights::by_rule_or_explicit};

}  // namespace gossamer::topology
