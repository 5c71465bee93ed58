#pragma once
// The optimisers, each with its descriptor at the end of its own file, and what they share.
#include <algorithm>
#include <array>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "gossamer/optim/optimizer.h"

namespace gossamer::optim {

struct OptimizerKind {
  NamedHelp row;
  std::unique_ptr<Optimizer> (*make)(const OptimizerSpec& spec, std::size_t buffer_size);
  OptimizerTraits traits{};
  double OptimizerSpec::*velocity = nullptr;  ///< decay of what it makes of gradients alone; null: nothing
};
extern const OptimizerKind kSgd, kMomentum, kNesterov, kAdam, kQuasiGlobal;

/// u[i] ← f(i) for all i. u may be an array that f reads at i only: results go through a block of their own,
/// so that the compiler sees that f's loop has no dependence and makes it a vector loop.
template <class F>
void for_blocks(std::span<float> u, const F& f) {
  constexpr std::size_t kBlock = 256;
  std::array<float, kBlock> result;
  for (std::size_t first = 0; first < u.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, u.size() - first);
    for (std::size_t i = 0; i < n; ++i) result[i] = f(first + i);
    std::copy_n(result.begin(), n, u.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

}  // namespace gossamer::optim
