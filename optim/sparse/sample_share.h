#pragma once
// A SampleShare tells which samples of a stream are this peer's, without anyone knowing how many there are.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "random.h"
#include "rendezvous.h"

namespace gossamer::optim {

class SampleShare {
 public:
  /// Of the specification: seed, peer, peers, names, homes, stays; and alpha, label skew, by which each
  /// label's samples go to the homes in proportions drawn from a Dirichlet distribution (0: none). Throws
  /// OptimError where samples stay with homes that this peer is none of.
  explicit SampleShare(const SampleStreamSpec& spec);

  bool by_label() const { return !ends_[0].empty(); }
  /// Whether all are.
  bool all() const { return homes_ == 1 && !among_; }
  /// By content and place alone.
  bool mine(std::uint64_t hash, std::uint64_t position) const {
    return all() || has(hash, position, below(key_ + mix(hash), position, homes_));
  }
  bool mine(std::uint64_t hash, std::uint64_t position, float label) const {
    return by_label() ? has(hash, position, home_by_label(hash, position, label)) : mine(hash, position);
  }

 private:
  bool has(std::uint64_t hash, std::uint64_t position, std::uint32_t home) const {
    if (!among_ || stays_) return home == home_;
    return among_->holder(bits(key_ + mix(hash), position), home) == peer_;
  }

  std::uint32_t home_by_label(std::uint64_t hash, std::uint64_t position, float label) const;

  std::uint64_t key_;
  std::size_t peer_, homes_, home_;  ///< home: this peer's number among the homes
  bool stays_;
  std::optional<Rendezvous> among_;            ///< where not all homes are there, or others
  std::array<std::vector<double>, 2> ends_{};  ///< by label: the homes' shares, summed up
};

}  // namespace gossamer::optim
