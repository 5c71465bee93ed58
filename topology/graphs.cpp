// The kinds whose edges follow from the number of peers alone.
#include <algorithm>

#include "graph.h"

namespace gossamer::topology {
namespace {

auto position(const std::vector<Edge>& row, PeerId peer) {
  return std::lower_bound(row.begin(), row.end(), peer, [](const Edge& e, PeerId p) { return e.peer < p; });
}

PeerId peer(std::size_t i) { return static_cast<PeerId>(i); }

/// ⌈log₂ P⌉: how many powers of two are below P.
std::size_t ceil_log2(std::size_t peers) {
  std::size_t log = 0;
  while ((std::size_t{1} << log) < peers) ++log;
  return log;
}

std::size_t most_square_divisor(std::size_t n) {
  std::size_t best = 1;
  for (std::size_t d = 1; d * d <= n; ++d)
    if (n % d == 0) best = d;
  return best;
}

std::string divisors(std::size_t n) {
  std::string list;
  for (std::size_t d = 1; d <= n; ++d)
    if (n % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  return list;
}

}  // namespace

void Graph::arc(PeerId from, PeerId to, float weight) {
  std::vector<Edge>& row = in_[to];
  if (from == to || has(from, to)) return;
  row.insert(position(row, from), Edge{from, weight});
}

bool Graph::has(PeerId from, PeerId to) const {
  const std::vector<Edge>& row = in_[to];
  const auto at = position(row, from);
  return at != row.end() && at->peer == from;
}

std::vector<Graph> ring(const GraphSpec& spec) {
  Graph graph(spec.peers);
  for (std::size_t i = 0; i < spec.peers; ++i) graph.edge(peer(i), peer((i + 1) % spec.peers));
  return {graph};
}

std::vector<Graph> torus(const GraphSpec& spec) {
  const std::size_t rows = spec.rows != 0 ? spec.rows : most_square_divisor(spec.peers);
  if (spec.peers % rows != 0)
    throw GraphError("torus: " + std::to_string(spec.peers) + " peers do not fill " + std::to_string(rows) +
                     " rows; expected a divisor of the number of peers (" + divisors(spec.peers) +
                     "), or rows = 0 for the most square grid");
  const std::size_t columns = spec.peers / rows;
  Graph graph(spec.peers);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      graph.edge(peer(r * columns + c), peer(r * columns + (c + 1) % columns));
      graph.edge(peer(r * columns + c), peer((r + 1) % rows * columns + c));
    }
  return {graph};
}

std::vector<Graph> full(const GraphSpec& spec) {
  Graph graph(spec.peers);
  for (std::size_t to = 0; to < spec.peers; ++to)
    for (std::size_t from = 0; from < spec.peers; ++from) graph.arc(peer(from), peer(to));
  return {graph};
}

std::vector<Graph> star(const GraphSpec& spec) {
  Graph graph(spec.peers);
  for (std::size_t leaf = 1; leaf < spec.peers; ++leaf) graph.edge(0, peer(leaf));
  return {graph};
}

std::vector<Graph> exponential(const GraphSpec& spec) {
  Graph graph(spec.peers);
  for (std::size_t j = 0; j < ceil_log2(spec.peers); ++j)
    for (std::size_t i = 0; i < spec.peers; ++i) {
      const PeerId to = peer((i + (std::size_t{1} << j)) % spec.peers);
      graph.arc(peer(i), to);
      if (!spec.directed) graph.arc(to, peer(i));
    }
  return {graph};
}

std::vector<Graph> one_peer_exponential(const GraphSpec& spec) {
  std::vector<Graph> cycle(std::max<std::size_t>(1, ceil_log2(spec.peers)), Graph(spec.peers));
  for (std::size_t t = 0; t < cycle.size(); ++t)
    for (std::size_t i = 0; i < spec.peers; ++i)
      cycle[t].arc(peer(i), peer((i + (std::size_t{1} << t)) % spec.peers));
  return cycle;
}

}  // namespace gossamer::topology
