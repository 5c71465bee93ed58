#pragma once
// total_mass sums the mass of push-sum over all peers of a simulation.
#include <cstdint>
#include <span>
#include <vector>

#include "simulation.h"

namespace gossamer::node {

/// A sum that push-sum keeps (sum_numbers.h); empty where there is none.
std::span<const std::uint64_t> mass_sum(const DataView& view, std::uint32_t number);
std::span<const std::uint64_t> mass_sum(const Simulation& simulation, PeerId peer, std::uint32_t number);

/// Σ over peers of what is held, and over edges of what is under way, σ − ρ: one entry for each parameter and
/// then for each parcel's weight, modulo 2⁶⁴. Only steps change the former, nothing the latter (P·2⁴⁰).
/// plan: of any peer.
std::vector<std::uint64_t> total_mass(const Simulation& simulation, const Plan& plan);

}  // namespace gossamer::node
