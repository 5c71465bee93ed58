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

namespace {

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

/// On fewer than six a grid is a ring, or has one row.
void large_torus(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  if (spec.peers >= 6) as_it_is(spec, out);
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

void both_ways_too(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  as_it_is(spec, out);
  as_it_is(spec, out);
  out.back().directed = false;
}

std::vector<Graph> one_peer_exponential(const GraphSpec& spec) {
  std::vector<Graph> cycle(std::max<std::size_t>(1, ceil_log2(spec.peers)), Graph(spec.peers));
  for (std::size_t t = 0; t < cycle.size(); ++t)
    for (std::size_t i = 0; i < spec.peers; ++i)
      cycle[t].arc(peer(i), peer((i + (std::size_t{1} << t)) % spec.peers));
  return cycle;
}

}  // namespace

constinit const GraphRow kRing{.listed = {"ring", "each peer with the next and the previous", "weights"},
                               .make = ring,
                               .candidates = as_it_is};

constinit const GraphRow kTorus{
    .listed = {"torus", "a grid of rows x columns that wraps around (rows; 0 = most square)", "weights rows"},
    .make = torus,
    .candidates = large_torus};

constinit const GraphRow kFull{
    .listed = {"full", "every peer with every other", "weights", {.places_are_alike = true}},
    .make = full,
    .candidates = as_it_is};

constinit const GraphRow kStar{
    .listed = {"star", "peer 0 with every other", "weights"}, .make = star, .candidates = as_it_is};

constinit const GraphRow kExponential{
    .listed = {"exponential", "i to i + 1, 2, 4, 8 ... mod P (directed)", "weights directed"},
    .make = exponential,
    .candidates = both_ways_too};

constinit const GraphRow kOnePeerExponential{
    .listed = {"one_peer_exponential",
               "i to i + 2^(round mod log2 P) mod P: one message per round",
               "weights",
               {.time_varying = true}},
    .make = one_peer_exponential,
    .candidates = as_it_is};

}  // namespace gossamer::topology
