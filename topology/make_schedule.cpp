#include <algorithm>
#include <array>
#include <limits>

#include "connectivity.h"
#include "graph.h"
#include "names.h"

namespace gossamer::topology {
namespace {

// One row a kind of graph; each stands at the end of the file that draws it.
constexpr std::array kRows{
    &kRing,          &kTorus,    &kFull, &kStar,    &kExponential, &kOnePeerExponential,
    &kRandomRegular, &kEdges,    &kFile, &kTree,    &kHypercube,   &kErdosRenyi,
    &kWattsStrogatz, &kMatching, &kBase, &kEquiDyn, &kEpidemic,    &kHierarchical};

const GraphRow& row_named(std::string_view name) {
  std::array<std::string_view, kRows.size()> names;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    names[i] = kRows[i]->listed.name;
    if (names[i] == name) return *kRows[i];
  }
  throw GraphError("graph kind '" + std::string(name) + "' is unknown: expected one of " + joined(names),
                   name, strings(names));
}

bool names_key(const GraphKind& kind, std::string_view key) {
  return (" " + std::string(kind.reads) + " ").find(" " + std::string(key) + " ") != std::string::npos;
}

std::string listing(const std::vector<PeerId>& peers) {
  constexpr std::size_t kShown = 16;
  std::string list = peers.size() == 1 ? "peer " : "peers ";
  for (std::size_t i = 0; i < std::min(kShown, peers.size()); ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(peers[i]);
  if (peers.size() > kShown) list += " and " + std::to_string(peers.size() - kShown) + " more";
  return list;
}

/// How many parts it would have if all edges went both ways.
std::size_t parts(const Schedule& schedule) {
  std::vector<std::vector<PeerId>> joined(schedule.peers());
  for (PeerId i = 0; i < schedule.peers(); ++i) joined[i] = schedule.links(i);
  return strong_components(joined).size();
}

void check_connected(const Schedule& schedule, bool may_fall_apart) {
  const std::vector<std::vector<PeerId>> components = strong_components(schedule);
  if (components.size() == (may_fall_apart ? parts(schedule) : 1)) return;
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

std::span<const GraphRow* const> graph_rows() { return kRows; }

std::span<const GraphKind> graph_table() {
  static const auto kListed = [] {
    std::array<GraphKind, kRows.size()> listed{};
    for (std::size_t i = 0; i < kRows.size(); ++i) listed[i] = kRows[i]->listed;
    return listed;
  }();
  return kListed;
}

const GraphKind& graph_kind(std::string_view name) { return row_named(name).listed; }

bool reads(const GraphKind& kind, std::string_view key) {
  return names_key(kind, key) || std::none_of(kRows.begin(), kRows.end(), [&](const GraphRow* row) {
           return names_key(row->listed, key);
         });
}

Schedule make_schedule(const GraphSpec& spec) {
  const GraphRow& kind = row_named(spec.kind);
  using Weights = GraphRow::Weights;
  if (spec.peers == 0) throw GraphError("graph '" + spec.kind + "' has no peers; expected at least 1");
  if (spec.peers > std::numeric_limits<PeerId>::max())
    throw GraphError("graph '" + spec.kind + "' has " + std::to_string(spec.peers) +
                     " peers; expected below 2^32");
  if (spec.weights == "explicit" && kind.weights != Weights::by_rule_or_explicit)
    throw GraphError("weights 'explicit' are for the kinds edges and file, not for '" + spec.kind +
                     "'; use \"metropolis\", \"lazy\" or \"uniform\"");
  std::vector<MixingMatrix> cycle;
  const std::string_view rule = kind.weights == Weights::of_its_own     ? "explicit"
                                : kind.weights == Weights::by_in_degree ? "uniform"
                                                                        : std::string_view(spec.weights);
  for (const Graph& graph : kind.make(spec)) cycle.push_back(weigh(graph, rule));
  Schedule schedule(std::move(cycle));
  check_connected(schedule, spec.may_fall_apart);
  return schedule;
}

}  // namespace gossamer::topology
