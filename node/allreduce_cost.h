#pragma once
// What a dense all-reduce costs on a ring and by halving and doubling, and which is the cheaper for a size.
#include <cstddef>

#include "gossamer/node/job.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::node {

/// Seconds for n entries: latency_s + n·per_entry_s; infinite where the graph lacks an edge that is needed.
struct LinearCost {
  double latency_s = 0, per_entry_s = 0;
  double seconds(std::size_t n) const { return latency_s + static_cast<double>(n) * per_entry_s; }
};

/// With latency α of a message and β = 32 bits / bandwidth of an entry, the worst over the links that are
/// used (Thakur, Rabenseifner & Gropp 2005):
///   ring                2(P − 1)·α + 2(P − 1)/P·nβ
///   halving_doubling    2 log₂Q·α + 2(Q − 1)/Q·nβ, and 2α + 2nβ where P > Q, the largest power of two ≤ P
struct AllreduceCost {
  LinearCost ring, halving;
  /// The ring where both cost the same.
  bool halves(std::size_t entries) const { return halving.seconds(entries) < ring.seconds(entries); }
};

/// From exchange.algorithm, the graph's edges, [[link]] and [sim] (1 Gbit/s and 0.5 ms where nothing is
/// said).
AllreduceCost allreduce_cost(const Job& job, const topology::Schedule& schedule);

/// Who halves with whom. The 2·surplus first peers are folded into pairs before: the odd one of each hands
/// its vector to the even one and gets the sum back.
struct Halving {
  explicit Halving(topology::PeerId peers);
  topology::PeerId ranks = 1;  ///< Q
  topology::PeerId surplus = 0;
  unsigned steps = 0;  ///< log₂Q
  bool folded(topology::PeerId peer) const { return peer < 2 * surplus; }
  /// Has no rank: hands its vector to peer − 1.
  bool idle(topology::PeerId peer) const { return folded(peer) && peer % 2 == 1; }
  topology::PeerId rank(topology::PeerId peer) const { return folded(peer) ? peer / 2 : peer - surplus; }
  topology::PeerId peer(topology::PeerId rank) const { return rank < surplus ? 2 * rank : rank + surplus; }
};

}  // namespace gossamer::node
