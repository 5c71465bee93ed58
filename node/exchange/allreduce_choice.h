#pragma once
// The two algorithms of a dense all-reduce, a ring and halving and doubling: what each costs, and which is
// the cheaper for a size.
#include <cstddef>
#include <span>
#include <vector>

#include "ids.h"
#include "parcel.h"

namespace gossamer::node {

/// Seconds for n entries: latency_s + n·per_entry_s; infinite where the graph lacks an edge that is needed.
struct LinearCost {
  double latency_s = 0, per_entry_s = 0;
  double seconds(std::size_t n) const { return latency_s + static_cast<double>(n) * per_entry_s; }
};

/// With latency α of a message and β = 32 bits / bandwidth of an entry, the worst over the links that are
/// used (Thakur, Rabenseifner & Gropp 2005):
///   ring                2(P − 1)·α + 2(P − 1)/P·nβ
///   halving_doubling    2 log₂Q·α + 2(Q − 1)/Q·nβ, and 2α + 2nβ where P > Q, the largest power of two ≤ P;
///                       and nμ, of passing over an entry in memory more often
struct AllreduceCost {
  LinearCost ring, halving;
  /// The ring where both cost the same.
  bool use_halving_doubling(std::size_t entries) const {
    return halving.seconds(entries) < ring.seconds(entries);
  }
};

/// Which parcels go by halving and doubling. The parcels of a layer are under way together, and go the way
/// that is the cheaper for all of it.
std::vector<bool> halving_parcels(const AllreduceCost& cost, std::span<const Parcel> parcels);

/// Who halves with whom. The 2·surplus first peers are folded into pairs before: the odd one of each hands
/// its vector to the even one and gets the sum back.
struct Halving {
  explicit Halving(PeerId peers);
  PeerId ranks = 1;  ///< Q
  PeerId surplus = 0;
  unsigned steps = 0;  ///< log₂Q
  bool folded(PeerId peer) const { return peer < 2 * surplus; }
  /// Has no rank: hands its vector to peer − 1.
  bool idle(PeerId peer) const { return folded(peer) && peer % 2 == 1; }
  PeerId rank(PeerId peer) const { return folded(peer) ? peer / 2 : peer - surplus; }
  PeerId peer(PeerId rank) const { return rank < surplus ? 2 * rank : rank + surplus; }
};

}  // namespace gossamer::node
