#include "sample_share.h"

#include <algorithm>
#include <numeric>

#include "splits.h"

namespace gossamer::optim {

SampleShare::SampleShare(std::uint64_t seed, std::size_t peer, std::size_t peers, double alpha)
    : key_(make_key(seed, Use::peers)), peer_(peer), peers_(peers) {
  if (alpha == 0 || peers == 1) return;
  const std::vector<std::size_t> alike(peers, 1);
  for (std::size_t label = 0; label < ends_.size(); ++label) {
    ends_[label] = dirichlet_shares(alpha, alike, make_key(seed, Use::proportions, label));
    std::partial_sum(ends_[label].begin(), ends_[label].end(), ends_[label].begin());
  }
}

bool SampleShare::mine(std::uint64_t hash, std::uint64_t position, float label) const {
  if (!by_label()) return mine(hash, position);
  const auto& ends = ends_[label > 0 ? 1 : 0];
  const double u = uniform(key_ + mix(hash), position);
  const auto at = std::upper_bound(ends.begin(), ends.end(), u);
  return std::min(static_cast<std::size_t>(at - ends.begin()), peers_ - 1) == peer_;
}

}  // namespace gossamer::optim
