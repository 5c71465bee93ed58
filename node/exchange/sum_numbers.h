#pragma once
// SumNumbers tell where a peer of push_sum keeps its sums; for the method, and for whoever counts the mass.
#include <cstdint>
#include <span>
#include <vector>

#include "ids.h"

namespace gossamer::node {

/// Numbers of the sums: 0 what is held, then one for each peer sent to in any round, then one for each heard
/// from, both ascending.
class SumNumbers {
 public:
  SumNumbers(const topology::Schedule& schedule, PeerId self);
  std::size_t count() const { return 1 + to_.size() + from_.size(); }
  std::span<const PeerId> to() const { return to_; }
  std::span<const PeerId> from() const { return from_; }
  std::uint32_t sent(PeerId to) const;        ///< σ: all that was ever sent there
  std::uint32_t taken(PeerId from) const;     ///< ρ: all that was ever taken from there
  PeerId receiver(std::uint32_t sent) const;  ///< whose number that is

 private:
  std::vector<PeerId> to_, from_;
};

}  // namespace gossamer::node
