#pragma once
// The optimisers, each with its descriptor at the end of its own file, and what they share.
#include <algorithm>
#include <array>
#include <cassert>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/optim/large_vector.h"
#include "gossamer/optim/optimizer.h"

namespace gossamer::optim {

struct OptimizerKind {
  NamedHelp row;
  std::unique_ptr<Optimizer> (*make)(const OptimizerSpec& spec, std::size_t buffer_size);
  OptimizerTraits traits{};
  double OptimizerSpec::*velocity = nullptr;  ///< decay of what it makes of gradients alone; null: nothing
};
extern const OptimizerKind kSgd, kMomentum, kNesterov, kAdam, kQuasiGlobal;

/// use(first, f(first) … f(first + n − 1)) of all i in [begin, end), a block after the other. What use writes
/// may be what f reads at the same i: results go through a block of their own, so that the compiler sees that
/// f's loop has no dependence and makes it a vector loop.
template <class F, class Use>
void for_blocks(std::size_t begin, std::size_t end, const F& f, const Use& use) {
  constexpr std::size_t kBlock = 256;
  std::array<float, kBlock> result;
  for (std::size_t first = begin; first < end; first += kBlock) {
    const std::size_t n = std::min(kBlock, end - first);
    for (std::size_t i = 0; i < n; ++i) result[i] = f(first + i);
    use(first, std::span<const float>(result).first(n));
  }
}

/// An optimiser whose step of an entry depends on that entry alone. Derived::entry(place, offset, x, g),
/// which is called once a step, gives the function of i whose value is u[i].
template <class Derived>
class EntryOptimizer : public Optimizer {
 public:
  void step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
            std::span<float> u) final {
    assert(g.size() == x.size() && u.size() == x.size());
    for_blocks(0, x.size(), entry(place, offset, x, g), [u](std::size_t first, std::span<const float> part) {
      std::copy(part.begin(), part.end(), u.begin() + static_cast<std::ptrdiff_t>(first));
    });
  }
  void apply(double place, std::size_t offset, std::span<float> x, std::span<float> g) final {
    assert(g.size() == x.size());
    subtract(0, x.size(), entry(place, offset, x, g), x);
  }
  Optimizer::Pieces apply_in_pieces(double place, std::size_t offset, std::span<float> x,
                                    std::span<float> g) final {
    assert(g.size() == x.size());
    return [x, u = entry(place, offset, x, g)](std::size_t first, std::size_t n) {
      subtract(first, first + n, u, x);
    };
  }

 private:
  template <class F>
  static void subtract(std::size_t begin, std::size_t end, const F& u, std::span<float> x) {
    for_blocks(begin, end, u, [x](std::size_t first, std::span<const float> part) {
      float* at = x.data() + first;
      for (std::size_t i = 0; i < part.size(); ++i) at[i] -= part[i];
    });
  }
  auto entry(double place, std::size_t offset, std::span<const float> x, std::span<const float> g) {
    return static_cast<Derived*>(this)->entry(place, offset, x, g);
  }
};

}  // namespace gossamer::optim
