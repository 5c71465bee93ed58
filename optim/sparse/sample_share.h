#pragma once
// A SampleShare tells which samples of a stream are this peer's, without anyone knowing how many there are.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "random.h"

namespace gossamer::optim {

class SampleShare {
 public:
  /// alpha: label skew, each label's samples in proportions drawn from a Dirichlet distribution; 0: none.
  SampleShare(std::uint64_t seed, std::size_t peer, std::size_t peers, double alpha = 0);

  bool by_label() const { return !ends_[0].empty(); }
  /// By content and place alone.
  bool mine(std::uint64_t hash, std::uint64_t position) const {
    return peers_ == 1 || below(key_ + mix(hash), position, peers_) == peer_;
  }
  bool mine(std::uint64_t hash, std::uint64_t position, float label) const;

 private:
  std::uint64_t key_;
  std::size_t peer_, peers_;
  std::array<std::vector<double>, 2> ends_;  ///< by label: the peers' shares, summed up
};

}  // namespace gossamer::optim
