#include "view_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "text.h"

namespace gossamer::node {
namespace {

using topology::GraphSpec;
using topology::Schedule;
using Edges = std::vector<GraphSpec::EdgeSpec>;
using Parts = std::vector<std::vector<PeerId>>;

constexpr std::size_t kMostListed = 8;  ///< of a part that a warning lists

bool in_every_round(const Schedule& s, bool (topology::MixingMatrix::*property)() const) {
  for (std::size_t t = 0; t < s.period(); ++t)
    if (!(s.at(t).*property)()) return false;
  return true;
}

/// The kind whose edges a job file lists.
const char* listing_kind() {
  const auto kinds = topology::graph_table();
  return std::find_if(
             kinds.begin(), kinds.end(),
             [](const auto& k) { return k.traits.edges_are_written && !k.traits.edges_are_in_a_file; })
      ->name;
}

/// What hangs together if all edges go both ways; ascending, as their peers are.
Parts parts_of(std::size_t peers, const Edges& edges) {
  std::vector<PeerId> first(peers);  // of the peer's part, or one of it that is lower
  std::iota(first.begin(), first.end(), PeerId{0});
  const auto root = [&](PeerId i) {
    while (first[i] != i) i = first[i] = first[first[i]];
    return i;
  };
  for (const auto& e : edges) {
    const PeerId a = root(e.from), b = root(e.to);
    first[std::max(a, b)] = std::min(a, b);
  }
  Parts parts;
  std::vector<std::size_t> number(peers);
  for (PeerId i = 0; i < peers; ++i) {
    if (root(i) == i) {
      number[i] = parts.size();
      parts.emplace_back();
    }
    parts[number[root(i)]].push_back(i);
  }
  return parts;
}

class Search {
 public:
  Search(const Job& base, const std::vector<PeerId>& places,
         const std::function<void(const GraphSpec&)>& accept)
      : base_(base), places_(places), accept_(accept), number_(base.peers.size()) {
    for (std::size_t i = 0; i < places.size(); ++i) number_[places[i]] = static_cast<PeerId>(i);
  }

  ViewGraph result() {
    const auto& traits = topology::graph_kind(base_.graph.kind).traits;
    const auto found = traits.edges_are_written ? of_listed() : of_generated();
    if (found) return *found;
    throw ConfigError(fmt::format("{} of {} peers are there ({}), and cannot go on by themselves: {}",
                                  places_.size(), base_.peers.size(), names(all()), refusal_));
  }

 private:
  std::optional<ViewGraph> of_generated() {
    GraphSpec same = base_.graph;
    same.peers = places_.size();
    if (accepts(same)) return ViewGraph{same, {}, {}};
    const std::string was = fmt::format("graph '{}' of {} peers", base_.graph.kind, places_.size());
    Edges edges = edges_left();
    const Parts parts = parts_of(places_.size(), edges);
    std::string warning = was + " does not do: they keep the edges among them that they had";
    if (parts.size() > 1) {
      const auto path = path_through(parts);
      for (const auto& [a, b] : path) edges.push_back({a, b, {}});
      warning += ". " + fallen(parts) +
                 (path.empty() ? ", which learn apart from each other"
                               : "; these are joined by " + edges_text(path));
    }
    for (const std::string& weights : {base_.graph.weights, GraphSpec{}.weights}) {
      GraphSpec left = listed(edges, false, weights);
      if (averages(left) && accepts(left)) return ViewGraph{left, warning, {}};
    }
    const GraphSpec full = listed(every_two(), false, GraphSpec{}.weights);
    if (!accepts(full)) return {};
    const std::string but = full.edges.size() < places_.size() * (places_.size() - 1) / 2
                                ? ", but for those of which neither can be reached"
                                : "";
    return ViewGraph{
        full,
        was + " and the edges among them that they had do not do: an edge joins every two of them" + but,
        {}};
  }

  std::optional<ViewGraph> of_listed() {
    const Edges edges = listed_left();
    const GraphSpec& graph = base_.graph;
    const GraphSpec plain;
    const bool symmetric = in_every_round(topology::make_schedule(graph), &topology::MixingMatrix::symmetric);
    GraphSpec same = listed(edges, graph.directed, graph.weights), metropolis = same, by_degree = same,
              both_ways = same;
    metropolis.weights = both_ways.weights = plain.weights;
    by_degree.weights = "uniform";
    both_ways.directed = false;
    both_ways.edges = without_reverses(edges);
    if ((!symmetric || averages(same)) && accepts(same)) return falling_apart(same);
    if (accepts(metropolis)) return falling_apart(metropolis);
    if (accepts(by_degree)) return falling_apart(by_degree);
    if (!accepts(both_ways)) return {};
    ViewGraph found = falling_apart(both_ways);
    found.warning = std::string(
                        "the directed edges among those that are there go both ways, by Metropolis "
                        "weights: as they stand they do not do") +
                    (found.warning.empty() ? "" : "; ") + found.warning;
    return found;
  }

  /// Tells where it does.
  ViewGraph falling_apart(const GraphSpec& spec) const {
    const Parts parts = parts_of(spec.peers, spec.edges);
    if (parts.size() == 1) return {spec, {}, {}};
    return {spec, fallen(parts) + ", which learn apart from each other", path_through(parts)};
  }

  bool accepts(const GraphSpec& spec) {
    try {
      accept_(spec);
      return true;
    } catch (const topology::GraphError& error) {
      if (refusal_.empty()) refusal_ = error.what();
    } catch (const ConfigError& error) {
      if (refusal_.empty()) refusal_ = error.what();
    }
    return false;
  }
  /// Rows and columns sum to 1.
  static bool averages(const GraphSpec& spec) {
    try {
      return in_every_round(topology::make_schedule(spec), &topology::MixingMatrix::doubly_stochastic);
    } catch (const topology::GraphError&) {
      return false;
    }
  }

  GraphSpec listed(Edges edges, bool directed, const std::string& weights) const {
    GraphSpec spec;
    spec.kind = listing_kind();
    spec.weights = weights;
    spec.peers = places_.size();
    spec.directed = directed;
    spec.edges = std::move(edges);
    spec.may_fall_apart = true;
    return spec;
  }

  /// Through the first of each that can be reached; else its first.
  std::vector<std::pair<PeerId, PeerId>> path_through(const Parts& parts) const {
    std::vector<PeerId> stops;
    for (const auto& part : parts) {
      const auto reached = std::find_if(part.begin(), part.end(), [&](PeerId p) { return !dials(p); });
      stops.push_back(reached == part.end() ? part.front() : *reached);
    }
    std::vector<std::pair<PeerId, PeerId>> path;
    for (std::size_t p = 1; p < stops.size(); ++p)
      if (!dials(stops[p - 1]) || !dials(stops[p])) path.emplace_back(stops[p - 1], stops[p]);
    return path;
  }
  /// The member can only dial out.
  bool dials(PeerId member) const { return base_.peers[places_[member]].address.empty(); }
  bool there(PeerId place) const { return std::binary_search(places_.begin(), places_.end(), place); }

  Edges listed_left() const {
    Edges edges;
    for (const auto& e : base_.graph.edges)
      if (there(e.from) && there(e.to)) edges.push_back({number_[e.from], number_[e.to], e.weight});
    join_newcomers(edges, base_.graph.directed);
    return edges;
  }
  /// Each to the two members before it, or one, that have fewest edges.
  void join_newcomers(Edges& edges, bool directed) const {
    std::vector<std::size_t> degree(places_.size());
    for (const auto& e : edges) ++degree[e.from], ++degree[e.to];
    for (PeerId i = 1; i < places_.size(); ++i) {
      if (places_[i] < base_.graph.peers) continue;
      std::vector<PeerId> before(i);
      std::iota(before.begin(), before.end(), PeerId{0});
      std::stable_sort(before.begin(), before.end(),
                       [&](PeerId a, PeerId b) { return degree[a] < degree[b]; });
      if (dials(i)) std::erase_if(before, [&](PeerId b) { return dials(b); });
      before.resize(std::min<std::size_t>(2, before.size()));
      for (const PeerId b : before) {
        edges.push_back({b, i, {}});
        if (directed) edges.push_back({i, b, {}});
        degree[b] += directed ? 2 : 1, degree[i] += directed ? 2 : 1;
      }
    }
  }
  /// Of base's graph, each once, in whichever round.
  Edges edges_left() const {
    const Schedule schedule = topology::make_schedule(base_.graph);
    Edges edges;
    for (const PeerId a : places_) {
      if (a >= base_.graph.peers) break;
      for (const PeerId b : schedule.links(a))
        if (a < b && there(b)) edges.push_back({number_[a], number_[b], {}});
    }
    join_newcomers(edges, false);
    return edges;
  }
  Edges every_two() const {
    Edges edges;
    for (PeerId b = 1; b < places_.size(); ++b)
      for (PeerId a = 0; a < b; ++a)
        if (!dials(a) || !dials(b)) edges.push_back({a, b, {}});
    return edges;
  }
  static Edges without_reverses(Edges edges) {
    for (auto& e : edges) e = {std::min(e.from, e.to), std::max(e.from, e.to), {}};
    const auto ends = [](const auto& e) { return std::pair(e.from, e.to); };
    std::sort(edges.begin(), edges.end(), [&](const auto& a, const auto& b) { return ends(a) < ends(b); });
    edges.erase(std::unique(edges.begin(), edges.end(),
                            [&](const auto& a, const auto& b) { return ends(a) == ends(b); }),
                edges.end());
    return edges;
  }

  std::vector<PeerId> all() const {
    std::vector<PeerId> peers(places_.size());
    std::iota(peers.begin(), peers.end(), PeerId{0});
    return peers;
  }
  const std::string& name(PeerId member) const { return base_.peers[places_[member]].name; }
  std::string names(const std::vector<PeerId>& members) const {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < std::min(kMostListed, members.size()); ++i) list.push_back(name(members[i]));
    if (members.size() > kMostListed) list.push_back(fmt::format("… ({} in all)", members.size()));
    return join(list, ", ");
  }
  std::string fallen(const Parts& parts) const {
    std::string text = "the graph falls apart into ";
    for (std::size_t p = 0; p < parts.size(); ++p)
      text += fmt::format("{}{{{}}}", p == 0 ? "" : p + 1 == parts.size() ? " and " : ", ", names(parts[p]));
    return text;
  }
  std::string edges_text(const std::vector<std::pair<PeerId, PeerId>>& edges) const {
    std::vector<std::string> list;
    for (const auto& [a, b] : edges) list.push_back(name(a) + " - " + name(b));
    return join(list, ", ");
  }

  const Job& base_;
  const std::vector<PeerId>& places_;
  const std::function<void(const GraphSpec&)>& accept_;
  std::vector<PeerId> number_;  ///< by place in base: of the members
  std::string refusal_;         ///< of the first graph
};

}  // namespace

ViewGraph graph_of_view(const Job& base, const std::vector<PeerId>& places,
                        const std::function<void(const GraphSpec&)>& accept) {
  return Search(base, places, accept).result();
}

}  // namespace gossamer::node
