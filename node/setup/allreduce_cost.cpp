#include "allreduce_cost.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace gossamer::node {
namespace {

using Edges = std::vector<std::pair<PeerId, PeerId>>;

constexpr double kBitsPerEntry = 32;
/// Of links of which nothing is stated.
constexpr double kAssumedLatency_s = 5e-4, kAssumedBandwidth = 1e9;  // bit/s
/// Floats that halving and doubling reads and writes more than the ring for an entry: 2 + 9(Q − 1)/Q
/// against 5.
constexpr double kFloatsMore = 4, kAssumedMemory = 8e9;  // byte/s
constexpr LinearCost kNever{std::numeric_limits<double>::infinity(), 0};

bool sends(const topology::Schedule& s, PeerId from, PeerId to) {
  const auto out = s.at(0).out(from);
  return std::find(out.begin(), out.end(), to) != out.end();
}

Edges ring_edges(PeerId peers) {
  Edges edges;
  for (PeerId i = 0; peers > 1 && i < peers; ++i) edges.emplace_back(i, (i + 1) % peers);
  return edges;
}

Edges halving_edges(PeerId peers) {
  const Halving h(peers);
  Edges edges;
  for (PeerId r = 0; r < h.ranks; ++r)
    for (PeerId bit = 1; bit < h.ranks; bit *= 2) edges.emplace_back(h.peer(r), h.peer(r ^ bit));
  for (PeerId pair = 0; pair < h.surplus; ++pair) {
    edges.emplace_back(2 * pair, 2 * pair + 1);
    edges.emplace_back(2 * pair + 1, 2 * pair);
  }
  return edges;
}

/// messages·α + vectors·nβ, with the worst α and β of the edges.
LinearCost cost(const Job& job, const topology::Schedule& schedule, const Edges& edges, double messages,
                double vectors) {
  if (schedule.time_varying()) return kNever;
  double latency = 0, per_entry = 0;
  for (const auto& [a, b] : edges) {
    if (!sends(schedule, a, b)) return kNever;
    double l = kAssumedLatency_s, w = kAssumedBandwidth;
    for (const LinkEntry& link : job.links)
      if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) {
        l = link.latency.value_or(l);
        w = link.bandwidth.value_or(w);
      }
    latency = std::max(latency, l);
    per_entry = std::max(per_entry, kBitsPerEntry / w);
  }
  return {messages * latency, vectors * per_entry};
}

}  // namespace

AllreduceCost allreduce_cost(const Job& job, const topology::Schedule& schedule) {
  const auto peers = static_cast<PeerId>(schedule.peers());
  const Halving h(peers);
  const double p = peers, q = h.ranks, fold = h.surplus > 0 ? 2 : 0;
  AllreduceCost c{cost(job, schedule, ring_edges(peers), 2 * (p - 1), 2 * (p - 1) / p),
                  cost(job, schedule, halving_edges(peers), 2 * h.steps + fold, 2 * (q - 1) / q + fold)};
  c.halving.per_entry_s += kFloatsMore * sizeof(float) / kAssumedMemory;
  if (job.exchange.algorithm == "ring") c.halving = kNever;
  if (job.exchange.algorithm == "halving_doubling") c.ring = kNever;
  return c;
}

}  // namespace gossamer::node
