#pragma once
// A Schedule says who sends to whom, in which round, with what weight.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::topology {

using PeerId = std::uint32_t;  ///< 0 … P−1, the order of the peers in the topology file
using Round = std::uint64_t;   ///< counted from 0

/// One off-diagonal entry of a row of W: peer's vector is taken with this weight.
struct Edge {
  PeerId peer;
  float weight;
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// What is wrong with a graph: what was found, what was expected, what to do.
class GraphError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// found is none of the names; whoever shows the message can add the one that was meant.
  GraphError(const std::string& message, std::string_view word, std::vector<std::string> known)
      : runtime_error(message), found(word), names(std::move(known)) {}
  std::string found;
  std::vector<std::string> names;
};

/// A row-stochastic matrix W of P×P non-negative weights; x_i ← W_ii x_i + Σ_j W_ij x_j.
/// An entry W_ij ≠ 0, j ≠ i, is an edge on which j sends to i. Immutable, validated when made.
class MixingMatrix {
 public:
  /// rows[i] holds the entries W_ij, j ≠ i (any order, zero weights dropped); W_ii = 1 − Σ_j W_ij.
  /// Throws GraphError where a weight is negative or not finite, a peer is out of range or named twice, or a
  /// row sums to more than 1 + 1e-6.
  explicit MixingMatrix(std::vector<std::vector<Edge>> rows);

  std::size_t peers() const { return rows_.size(); }
  float self_weight(PeerId i) const { return self_[i]; }
  std::span<const Edge> in(PeerId i) const { return rows_[i]; }    ///< from whom i receives; ascending peer
  std::span<const PeerId> out(PeerId i) const { return out_[i]; }  ///< to whom i sends; ascending
  bool symmetric() const;                                          ///< |W_ij − W_ji| ≤ 1e-6
  bool doubly_stochastic() const;                                  ///< columns sum to 1 within 1e-5
  std::vector<double> dense() const;                               ///< P×P, row-major

 private:
  std::vector<std::vector<Edge>> rows_;
  std::vector<std::vector<PeerId>> out_;
  std::vector<float> self_;
};

/// A cycle of mixing matrices; a static graph is a cycle of one. Round r uses cycle[r mod period]. Copies
/// share the matrices.
class Schedule {
 public:
  explicit Schedule(std::vector<MixingMatrix> cycle);  ///< at least one, all of the same size
  const MixingMatrix& at(Round r) const { return (*cycle_)[r % cycle_->size()]; }
  std::size_t period() const { return cycle_->size(); }
  bool time_varying() const { return cycle_->size() > 1; }
  std::size_t peers() const { return cycle_->front().peers(); }
  /// Every peer that i sends to or receives from in any round of the cycle; ascending.
  std::vector<PeerId> links(PeerId i) const;

 private:
  std::shared_ptr<const std::vector<MixingMatrix>> cycle_;
};

/// What a topology file says of the graph. Members that a kind does not read are ignored here.
struct GraphSpec {
  std::string kind = "ring";           ///< a name of graph_table()
  std::string weights = "metropolis";  ///< a name of weights_table()
  std::size_t peers = 0;               ///< P ≥ 1
  std::size_t degree = 3;   ///< random_regular: neighbours of each peer; watts_strogatz: before rewiring
                            ///< (even); tree: children; base: the most neighbours in a round
  std::size_t rows = 0;     ///< torus: rows of the grid; 0 = the most square that divides P
  std::size_t groups = 0;   ///< hierarchical: how many; 0 = about √P
  double probability = 0;   ///< erdos_renyi, watts_strogatz; 0 = 2 ln P / P and 0.1
  std::size_t period = 64;  ///< matching, equi_dyn, epidemic: random rounds before they repeat
  std::uint64_t seed = 1;   ///< of the random kinds
  bool directed = true;     ///< exponential, edges, file: false adds every edge's reverse
  struct EdgeSpec {
    PeerId from, to;
    std::optional<float> weight;  ///< explicit weights: W_{to,from}
  };
  std::vector<EdgeSpec> edges;  ///< edges: the list; file: filled by read_graph
  /// Parts of it need not be joined; each is connected in itself.
  bool may_fall_apart = false;
};

/// What others may know of a kind of graph.
struct GraphTraits {
  bool time_varying = false;
  bool edges_are_written = false;    ///< GraphSpec::edges is the graph, and names peers as they are
  bool edges_are_in_a_file = false;  ///< GraphSpec::edges is what read_graph finds in a file
  bool places_are_alike = false;     ///< it is the same graph in whatever order the peers stand
  /// The kind under which edges that were read are written out, so that the text stands without the file.
  const char* written_as = nullptr;
};

struct GraphKind {
  const char* name;
  const char* help;  ///< one line
  /// Keys of the topology file's [graph], members of GraphSpec but for `file`, that make a difference to it,
  /// of those that not all kinds read; blanks between them.
  const char* reads = "";
  GraphTraits traits{};
};
std::span<const GraphKind> graph_table();
/// Throws GraphError for an unknown name, as make_schedule.
const GraphKind& graph_kind(std::string_view name);
/// Whether the key makes a difference to the kind: it names the key, or no kind does.
bool reads(const GraphKind& kind, std::string_view key);

struct WeightRule {
  const char* name;
  const char* help;  ///< one line
};
std::span<const WeightRule> weights_table();

/// Builds and validates: non-negative, rows sum to 1, connected over one period (its parts, where the spec
/// lets it fall apart). Throws GraphError.
Schedule make_schedule(const GraphSpec& spec);

}  // namespace gossamer::topology
