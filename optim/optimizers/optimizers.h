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

/// use(first, f(first) … f(first + n − 1)) of all i below size, a block after the other. What use writes
/// may be what f reads at the same i: results go through a block of their own, so that the compiler sees that
/// f's loop has no dependence and makes it a vector loop.
template <class F, class Use>
void for_blocks(std::size_t size, const F& f, const Use& use) {
  constexpr std::size_t kBlock = 256;
  std::array<float, kBlock> result;
  for (std::size_t first = 0; first < size; first += kBlock) {
    const std::size_t n = std::min(kBlock, size - first);
    for (std::size_t i = 0; i < n; ++i) result[i] = f(first + i);
    use(first, std::span<const float>(result).first(n));
  }
}

/// An optimiser whose step of an entry depends on that entry alone. Derived::entry(place, offset, x), which
/// is called once a step, gives the function of i and g[i] whose value is u[i].
template <class Derived>
class EntryOptimizer : public Optimizer {
 public:
  void step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
            std::span<float> u) final {
    assert(g.size() == x.size() && u.size() == x.size());
    const auto of = entry(place, offset, x);
    const auto at = [&](std::size_t i) { return of(i, g[i]); };
    for_blocks(x.size(), at, [u](std::size_t first, std::span<const float> part) {
      std::copy(part.begin(), part.end(), u.begin() + static_cast<std::ptrdiff_t>(first));
    });
  }
  void apply(double place, std::size_t offset, std::span<float> x, std::span<float> g) final {
    assert(g.size() == x.size());
    subtract(entry(place, offset, x), 0, g, x);
  }
  Optimizer::Pieces apply_in_pieces(double place, std::size_t offset, std::span<float> x,
                                    std::span<float> g) final {
    assert(g.size() == x.size());
    return [x, g, of = entry(place, offset, x)](std::size_t first, std::size_t n) {
      subtract(of, first, g.subspan(first, n), x);
    };
  }
  Optimizer::Blocks apply_in_blocks(double place, std::size_t offset, std::span<float> x) final {
    return [x, of = entry(place, offset, x)](std::size_t first, std::span<const float> g) {
      subtract(of, first, g, x);
    };
  }

 private:
  /// Of the entries from `begin` on, whose gradients are these.
  template <class Entry>
  static void subtract(const Entry& of, std::size_t begin, std::span<const float> g, std::span<float> x) {
    const auto at = [&](std::size_t i) { return of(begin + i, g[i]); };
    for_blocks(g.size(), at, [x, begin](std::size_t first, std::span<const float> part) {
      float* const own = x.data() + begin + first;
      for (std::size_t i = 0; i < part.size(); ++i) own[i] -= part[i];
    });
  }
  auto entry(double place, std::size_t offset, std::span<const float> x) {
    return static_cast<Derived*>(this)->entry(place, offset, x);
  }
};

}  // namespace gossamer::optim
