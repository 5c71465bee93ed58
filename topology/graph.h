#pragma once
// Graphs before weights are put on them, and the factories of the kinds that graph_table() lists.
#include <string_view>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

/// A directed graph without self loops and double edges.
class Graph {
 public:
  explicit Graph(std::size_t peers) : in_(peers) {}

  /// `from` sends to `to`; nothing happens where they are the same peer or already joined in this direction.
  void arc(PeerId from, PeerId to, float weight = 0);
  void edge(PeerId a, PeerId b, float weight = 0) {
    arc(a, b, weight);
    arc(b, a, weight);
  }

  std::size_t peers() const { return in_.size(); }
  bool has(PeerId from, PeerId to) const;
  /// in()[i]: who sends to i, ascending; the weights mean something only for `explicit` and for kinds with
  /// weights of their own.
  const std::vector<std::vector<Edge>>& in() const { return in_; }

 private:
  std::vector<std::vector<Edge>> in_;
};

/// One graph per round of the period. Each throws GraphError where the spec asks for what cannot be.
std::vector<Graph> ring(const GraphSpec& spec);
std::vector<Graph> torus(const GraphSpec& spec);
std::vector<Graph> full(const GraphSpec& spec);
std::vector<Graph> star(const GraphSpec& spec);
std::vector<Graph> exponential(const GraphSpec& spec);
std::vector<Graph> one_peer_exponential(const GraphSpec& spec);
std::vector<Graph> random_regular(const GraphSpec& spec);
std::vector<Graph> tree(const GraphSpec& spec);
std::vector<Graph> hypercube(const GraphSpec& spec);
std::vector<Graph> hierarchical(const GraphSpec& spec);
std::vector<Graph> base(const GraphSpec& spec);
std::vector<Graph> erdos_renyi(const GraphSpec& spec);
std::vector<Graph> watts_strogatz(const GraphSpec& spec);
std::vector<Graph> matching(const GraphSpec& spec);
std::vector<Graph> equi_dyn(const GraphSpec& spec);
std::vector<Graph> epidemic(const GraphSpec& spec);
std::vector<Graph> listed_edges(const GraphSpec& spec);

/// Puts weights, of a rule of weights_table(), on a graph. Throws GraphError for an unknown name, and
/// where the weights asked for do not exist on this graph.
MixingMatrix weigh(const Graph& graph, std::string_view weights);

}  // namespace gossamer::topology
