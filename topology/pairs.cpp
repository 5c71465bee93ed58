// Averaging by pairs at random.
#include <cassert>
#include <cmath>

#include "eigenvalues.h"
#include "gossamer/topology/cost.h"

namespace gossamer::topology {

double pair_contraction(std::size_t peers, std::span<const double> rates) {
  assert(rates.size() == peers * peers);
  if (peers < 2) return 0;
  std::vector<double> laplacian(peers * peers, 0.0);
  double pairings = 0;
  for (std::size_t i = 0; i < peers; ++i)
    for (std::size_t j = 0; j < peers; ++j) {
      if (i == j) continue;
      laplacian[i * peers + j] = -rates[i * peers + j];
      laplacian[i * peers + i] += rates[i * peers + j];
      pairings += rates[i * peers + j] / 2;
    }
  if (pairings <= 0) return 1;
  // A pairing of i and j is I − ½ (e_i − e_j)(e_i − e_j)ᵀ, its own square.
  return std::pow(1 - symmetric_eigenvalues(laplacian)[1] / (2 * pairings), pairings);
}

}  // namespace gossamer::topology
