#include <algorithm>
#include <cstdio>

#include "gossamer/topology/report.h"

namespace gossamer::topology {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, std::span<const std::string> names)
      : schedule_(schedule), names_(names), undirected_(true) {
    for (Round t = 0; t < schedule.period(); ++t) undirected_ = undirected_ && schedule.at(t).symmetric();
  }

  std::string text() const {
    std::string out = undirected_ ? "graph gossamer {\n" : "digraph gossamer {\n";
    for (Round t = 0; t < schedule_.period(); ++t) {
      if (!schedule_.time_varying()) {
        out += round(t, "  ");
        continue;
      }
      out +=
          "  subgraph cluster_" + std::to_string(t) + " {\n    label=\"round " + std::to_string(t) + "\";\n";
      out += round(t, "    ") + "  }\n";
    }
    return out + "}\n";
  }

 private:
  /// A node is drawn once in every round, so that its name says the round too.
  std::string node(PeerId i, Round t) const {
    std::string name = schedule_.time_varying() ? "r" : "";
    if (schedule_.time_varying()) name += std::to_string(t) + "_";
    return name + "p" + std::to_string(i);
  }

  std::string round(Round t, const std::string& indent) const {
    const MixingMatrix& w = schedule_.at(t);
    const bool symmetric = w.symmetric();
    std::string out;
    for (PeerId i = 0; i < w.peers(); ++i)
      out +=
          indent + node(i, t) + " [label=" + quoted(names_.empty() ? std::to_string(i) : names_[i]) + "];\n";
    for (PeerId i = 0; i < w.peers(); ++i)
      for (const Edge& e : w.in(i)) {
        if (symmetric && e.peer > i) continue;  // drawn from its other end
        char label[32];
        std::snprintf(label, sizeof label, "%.4g", static_cast<double>(e.weight));
        out += indent + node(e.peer, t) + (undirected_ ? " -- " : " -> ") + node(i, t) + " [label=\"" +
               label + "\"" + (symmetric && !undirected_ ? ", dir=none" : "") + "];\n";
      }
    return out;
  }

  const Schedule& schedule_;
  std::span<const std::string> names_;
  bool undirected_;  // of every round: Graphviz has one kind of edge per drawing
};

}  // namespace

std::string to_dot(const Schedule& schedule, std::span<const std::string> peer_names) {
  if (!peer_names.empty() && peer_names.size() != schedule.peers())
    throw GraphError(std::to_string(peer_names.size()) + " names for " + std::to_string(schedule.peers()) +
                     " peers; expected one for each, or none for numbers");
  return Drawing(schedule, peer_names).text();
}

}  // namespace gossamer::topology
