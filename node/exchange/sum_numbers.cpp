#include "sum_numbers.h"

#include <algorithm>
#include <cassert>

namespace gossamer::node {

SumNumbers::SumNumbers(const topology::Schedule& schedule, PeerId self) {
  for (std::size_t t = 0; t < schedule.period(); ++t) {
    for (const PeerId p : schedule.at(t).out(self)) to_.push_back(p);
    for (const auto& e : schedule.at(t).in(self)) from_.push_back(e.peer);
  }
  for (auto* peers : {&to_, &from_}) {
    std::sort(peers->begin(), peers->end());
    peers->erase(std::unique(peers->begin(), peers->end()), peers->end());
  }
}

std::uint32_t SumNumbers::sent(PeerId to) const {
  const auto at = std::lower_bound(to_.begin(), to_.end(), to);
  assert(at != to_.end() && *at == to);
  return static_cast<std::uint32_t>(1 + (at - to_.begin()));
}

std::uint32_t SumNumbers::taken(PeerId from) const {
  const auto at = std::lower_bound(from_.begin(), from_.end(), from);
  assert(at != from_.end() && *at == from);
  return static_cast<std::uint32_t>(1 + to_.size() + static_cast<std::size_t>(at - from_.begin()));
}

PeerId SumNumbers::receiver(std::uint32_t sent) const { return to_[sent - 1]; }

}  // namespace gossamer::node
