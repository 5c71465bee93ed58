#pragma once
// Graphs before weights are put on them, and the descriptors of the kinds that graph_table() lists.
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

/// A kind of graph; each stands at the end of the file that draws it.
struct GraphRow {
  GraphKind listed;
  /// One graph per round of the period. Throws GraphError where the spec asks for what cannot be.
  std::vector<Graph> (*make)(const GraphSpec& spec);
  enum class Weights { by_rule, by_rule_or_explicit, by_in_degree, of_its_own } weights = Weights::by_rule;
  /// Adds what is worth a try for so many peers; spec is of this kind, all else as it is by default. Null:
  /// nothing is.
  void (*candidates)(const GraphSpec& spec, std::vector<GraphSpec>& out) = nullptr;
};
extern const GraphRow kRing, kTorus, kFull, kStar, kExponential, kOnePeerExponential, kRandomRegular, kEdges,
    kFile, kTree, kHypercube, kErdosRenyi, kWattsStrogatz, kMatching, kBase, kEquiDyn, kEpidemic,
    kHierarchical;
std::span<const GraphRow* const> graph_rows();

// Candidates that several kinds share.
void as_it_is(const GraphSpec& spec, std::vector<GraphSpec>& out);
/// Of random rounds: so many that they average well, so few that they can be reckoned.
void in_sixteen_rounds(const GraphSpec& spec, std::vector<GraphSpec>& out);
/// Those of the degrees that are below the number of peers.
template <std::size_t... degrees>
void of_degrees(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  for (const std::size_t degree : {degrees...}) {
    if (degree >= spec.peers) continue;
    out.push_back(spec);
    out.back().degree = degree;
  }
}

/// Puts weights, of a rule of weights_table(), on a graph. Throws GraphError for an unknown name, and
/// where the weights asked for do not exist on this graph.
MixingMatrix weigh(const Graph& graph, std::string_view weights);

}  // namespace gossamer::topology
