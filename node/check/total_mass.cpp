#include "total_mass.h"

#include "sum_numbers.h"

namespace gossamer::node {

std::vector<std::uint64_t> total_mass(const Simulation& simulation, const topology::Schedule& schedule) {
  std::vector<std::uint64_t> total(simulation.sum(0, 0).size(), 0);
  const auto add = [&](std::span<const std::uint64_t> sum, std::uint64_t sign) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sign * sum[i];
  };
  for (PeerId p = 0; p < schedule.peers(); ++p) {
    const SumNumbers numbers(schedule, p);
    add(simulation.sum(p, 0), 1);
    for (const PeerId to : numbers.to()) add(simulation.sum(p, numbers.sent(to)), 1);
    for (const PeerId from : numbers.from()) add(simulation.sum(p, numbers.taken(from)), ~std::uint64_t{0});
  }
  return total;
}

}  // namespace gossamer::node
