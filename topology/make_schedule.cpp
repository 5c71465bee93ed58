#include <algorithm>
#include <array>
#include <limits>

#include "connectivity.h"
#include "graph.h"
#include "names.h"

namespace gossamer::topology {
namespace {

struct Kind {
  GraphKind listed;
  std::vector<Graph> (*make)(const GraphSpec&);
  enum class Weights { by_rule, by_rule_or_explicit, by_in_degree, of_its_own } weights = Weights::by_rule;
};

constexpr std::array kKinds{
    Kind{{"ring", "each peer with the next and the previous", false}, ring},
    Kind{{"torus", "a grid of rows x columns that wraps around (rows; 0 = most square)", false}, torus},
    Kind{{"full", "every peer with every other", false}, full},
    Kind{{"star", "peer 0 with every other", false}, star},
    Kind{{"exponential", "i to i + 1, 2, 4, 8 ... mod P (directed)", false}, exponential},
    Kind{{"one_peer_exponential", "i to i + 2^(round mod log2 P) mod P: one message per round", true},
         one_peer_exponential},
    Kind{{"random_regular", "a random connected graph, every peer with degree neighbours (degree, seed)",
          false},
         random_regular},
    Kind{{"edges", "the listed edges (edges, directed)", false},
         listed_edges,
         Kind::Weights::by_rule_or_explicit},
    Kind{{"file", "the edges of a file, one per line, as networkx writes them (directed)", false},
         listed_edges,
         Kind::Weights::by_rule_or_explicit},
    Kind{{"tree", "peer i with its children degree * i + 1 ... (degree)", false}, tree},
    Kind{{"hypercube", "i with every number that differs in one bit; P a power of two", false}, hypercube},
    Kind{{"erdos_renyi", "every pair with the same probability, connected (probability, seed)", false},
         erdos_renyi},
    Kind{{"watts_strogatz",
          "a ring of degree nearest neighbours with some ends moved (degree, probability, seed)", false},
         watts_strogatz},
    Kind{{"matching", "random pairs each round (period, seed)", true}, matching},
    Kind{{"base",
          "exact consensus in finitely many rounds for any P, at most degree neighbours a round (degree)",
          true},
         base,
         Kind::Weights::of_its_own},
    Kind{{"equi_dyn", "each round from the peer at one random distance (period, seed)", true},
         equi_dyn,
         Kind::Weights::of_its_own},
    Kind{{"epidemic", "each round to degree random others; rows sum to 1 only (degree, period, seed)", true},
         epidemic,
         Kind::Weights::by_in_degree},
    Kind{{"hierarchical", "groups average inside, then their first peers mix in a ring (groups)", true},
         hierarchical,
         Kind::Weights::of_its_own},
};

constexpr auto kListed = [] {
  std::array<GraphKind, kKinds.size()> listed{};
  for (std::size_t i = 0; i < kKinds.size(); ++i) listed[i] = kKinds[i].listed;
  return listed;
}();

const Kind& kind_named(std::string_view name) {
  std::array<std::string_view, kKinds.size()> names;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    names[i] = kKinds[i].listed.name;
    if (names[i] == name) return kKinds[i];
  }
  throw GraphError("graph kind '" + std::string(name) + "' is unknown: expected one of " + joined(names),
                   name, strings(names));
}

std::string listing(const std::vector<PeerId>& peers) {
  constexpr std::size_t kShown = 16;
  std::string list = peers.size() == 1 ? "peer " : "peers ";
  for (std::size_t i = 0; i < std::min(kShown, peers.size()); ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(peers[i]);
  if (peers.size() > kShown) list += " and " + std::to_string(peers.size() - kShown) + " more";
  return list;
}

void check_connected(const Schedule& schedule) {
  const std::vector<std::vector<PeerId>> components = strong_components(schedule);
  if (components.size() == 1) return;
  std::vector<PeerId> cut_off;
  for (std::size_t c = 1; c < components.size(); ++c)
    cut_off.insert(cut_off.end(), components[c].begin(), components[c].end());
  std::sort(cut_off.begin(), cut_off.end());
  throw GraphError(
      "the graph is not connected: " + listing(cut_off) + (cut_off.size() == 1 ? " is" : " are") +
      " cut off from " + listing(components.front()) +
      "; expected a path of edges with positive weight from every peer to every other; add edges" +
      ", or use directed = false where one direction is missing");
}

}  // namespace

std::span<const GraphKind> graph_table() { return kListed; }

Schedule make_schedule(const GraphSpec& spec) {
  const Kind& kind = kind_named(spec.kind);
  if (spec.peers == 0) throw GraphError("graph '" + spec.kind + "' has no peers; expected at least 1");
  if (spec.peers > std::numeric_limits<PeerId>::max())
    throw GraphError("graph '" + spec.kind + "' has " + std::to_string(spec.peers) +
                     " peers; expected below 2^32");
  if (spec.weights == "explicit" && kind.weights != Kind::Weights::by_rule_or_explicit)
    throw GraphError("weights 'explicit' are for the kinds edges and file, not for '" + spec.kind +
                     "'; use \"metropolis\", \"lazy\" or \"uniform\"");
  std::vector<MixingMatrix> cycle;
  const std::string_view rule = kind.weights == Kind::Weights::of_its_own ? "explicit"
                                : kind.weights == Kind::Weights::by_in_degree
                                    ? "uniform"
                                    : std::string_view(spec.weights);
  for (const Graph& graph : kind.make(spec)) cycle.push_back(weigh(graph, rule));
  Schedule schedule(std::move(cycle));
  check_connected(schedule);
  return schedule;
}

}  // namespace gossamer::topology
