#pragma once
// Specs and messages for the tests of topology/.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology::test {

/// Whether the action throws a GraphError that takes `found` for a misspelt one of several names, `name`
/// among them.
template <class Action>
bool offers(Action&& action, const std::string& found, const std::string& name) {
  try {
    action();
  } catch (const GraphError& error) {
    return error.found == found &&
           std::find(error.names.begin(), error.names.end(), name) != error.names.end();
  }
  return false;
}

inline const std::vector<std::size_t> kPeers{1, 2, 3, 4, 5, 7, 8, 12, 16, 33};

using Edges = std::vector<GraphSpec::EdgeSpec>;

inline Edges ring_edges(std::size_t peers) {
  Edges edges;
  for (std::size_t i = 0; i + 1 < peers; ++i)
    edges.push_back({static_cast<PeerId>(i), static_cast<PeerId>(i + 1), {}});
  if (peers > 2) edges.push_back({static_cast<PeerId>(peers - 1), 0, {}});
  return edges;
}

/// A spec of that kind that is valid for that many peers.
inline GraphSpec spec_of(const std::string& kind, std::size_t peers) {
  GraphSpec spec;
  spec.kind = kind;
  spec.peers = peers;
  spec.degree = peers <= 3 ? peers - 1 : peers % 2 == 0 ? 3 : 4;
  if (kind == "edges" || kind == "file") {
    spec.directed = false;
    spec.edges = ring_edges(peers);
  }
  return spec;
}

inline GraphSpec edges_spec(std::size_t peers, Edges edges, const std::string& weights, bool directed) {
  GraphSpec spec;
  spec.kind = "edges";
  spec.peers = peers;
  spec.weights = weights;
  spec.directed = directed;
  spec.edges = std::move(edges);
  return spec;
}

/// The message of the GraphError that f throws; empty where it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const GraphError& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace gossamer::topology::test
