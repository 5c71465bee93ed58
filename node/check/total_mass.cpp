#include "total_mass.h"

#include "mass.h"
#include "sum_numbers.h"

namespace gossamer::node {
namespace {

std::span<const std::uint64_t> sum_of(const Extension* extension, std::uint32_t number) {
  const auto* mass = dynamic_cast<const Mass*>(extension);
  return mass ? mass->sum(number) : std::span<const std::uint64_t>();
}

}  // namespace

std::span<const std::uint64_t> mass_sum(const DataView& view, std::uint32_t number) {
  return sum_of(view.extension(), number);
}
std::span<const std::uint64_t> mass_sum(const Simulation& simulation, PeerId peer, std::uint32_t number) {
  return sum_of(simulation.extension(peer), number);
}

std::vector<std::uint64_t> total_mass(const Simulation& simulation, const Plan& plan) {
  std::vector<std::uint64_t> total(mass_sum(simulation, 0, 0).size(), 0);
  const auto add = [&](std::span<const std::uint64_t> sum, std::uint64_t sign) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sign * sum[i];
  };
  for (PeerId p = 0; p < plan.schedule.peers(); ++p) {
    const SumNumbers numbers(plan, p);
    add(mass_sum(simulation, p, 0), 1);
    for (std::uint32_t n = 1; n < numbers.count(); ++n)
      add(mass_sum(simulation, p, n), numbers[n].sent ? 1 : ~std::uint64_t{0});
  }
  return total;
}

}  // namespace gossamer::node
