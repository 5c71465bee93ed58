#include "sample_share.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "splits.h"

namespace gossamer::optim {
namespace {

std::vector<RowHome> all_alike(const std::vector<std::string>& names) {
  std::vector<RowHome> peers;
  for (const std::string& name : names) peers.push_back({name, 1});
  return peers;
}

}  // namespace

SampleShare::SampleShare(const SampleStreamSpec& spec)
    : key_(make_key(spec.seed, Use::peers)),
      peer_(spec.peer),
      homes_(spec.homes.empty() ? spec.peers : spec.homes.size()),
      home_(spec.peer),
      stays_(spec.stays) {
  if (!spec.homes.empty() && spec.names != spec.homes) {
    among_.emplace(spec.seed, all_alike(spec.homes), all_alike(spec.names));
    home_ = among_->home_of(peer_);
    if (stays_ && home_ == homes_) refuse_to_stay(spec.names[peer_]);
  }
  if (spec.alpha == 0 || homes_ == 1) return;
  const std::vector<std::size_t> alike(homes_, 1);
  for (std::size_t label = 0; label < ends_.size(); ++label) {
    ends_[label] = dirichlet_shares(spec.alpha, alike, make_key(spec.seed, Use::proportions, label));
    std::partial_sum(ends_[label].begin(), ends_[label].end(), ends_[label].begin());
  }
}

std::uint32_t SampleShare::home_by_label(std::uint64_t hash, std::uint64_t position, float label) const {
  const auto& ends = ends_[label > 0 ? 1 : 0];
  const double u = uniform(key_ + mix(hash), position);
  const auto at = std::upper_bound(ends.begin(), ends.end(), u);
  return static_cast<std::uint32_t>(std::min(static_cast<std::size_t>(at - ends.begin()), homes_ - 1));
}

}  // namespace gossamer::optim
