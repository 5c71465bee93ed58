#include "allreduce_choice.h"

#include <map>

namespace gossamer::node {

std::vector<bool> halving_parcels(const AllreduceCost& cost, std::span<const Parcel> parcels) {
  std::map<std::size_t, std::size_t> entries;  // of each layer
  for (const Parcel& p : parcels) entries[p.layer] += p.range.size;
  std::vector<bool> halves;
  for (const Parcel& p : parcels) halves.push_back(cost.use_halving_doubling(entries[p.layer]));
  return halves;
}

Halving::Halving(PeerId peers) {
  while (ranks * 2 <= peers) {
    ranks *= 2;
    ++steps;
  }
  surplus = peers - ranks;
}

}  // namespace gossamer::node
