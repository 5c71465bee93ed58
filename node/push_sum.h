#pragma once
// Where a peer of push_sum keeps its sums; for the method, and for whoever counts the mass.
#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::node {

class Simulation;

/// Numbers of the sums: 0 what is held, then one for each peer sent to in any round, then one for each heard
/// from, both ascending.
class SumNumbers {
 public:
  SumNumbers(const topology::Schedule& schedule, topology::PeerId self);
  std::size_t count() const { return 1 + to_.size() + from_.size(); }
  std::span<const topology::PeerId> to() const { return to_; }
  std::span<const topology::PeerId> from() const { return from_; }
  std::uint32_t sent(topology::PeerId to) const;        ///< σ: all that was ever sent there
  std::uint32_t taken(topology::PeerId from) const;     ///< ρ: all that was ever taken from there
  topology::PeerId receiver(std::uint32_t sent) const;  ///< whose number that is

 private:
  std::vector<topology::PeerId> to_, from_;
};

/// Σ over peers of what is held, and over edges of what is under way, σ − ρ: one entry for each parameter and
/// then for each parcel's weight, modulo 2⁶⁴. Only steps change the former, nothing the latter (P·2⁴⁰).
/// schedule: as planned.
std::vector<std::uint64_t> total_mass(const Simulation& simulation, const topology::Schedule& schedule);

}  // namespace gossamer::node
