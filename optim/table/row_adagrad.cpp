// AdaGrad (Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization, JMLR 2011, the diagonal form):
//   n ← n + g²     w ← w − η·g/(√n + ε)
#include <cmath>

#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowAdagrad final : public WeightsInFront {
 public:
  explicit RowAdagrad(const TableSpec& spec)
      : WeightsInFront(2),
        rate_(static_cast<float>(spec.learning_rate)),
        epsilon_(static_cast<float>(spec.epsilon)) {}
  void step(float* row, std::span<const float> g, std::uint32_t, bool careful) const override {
    careful ? steps<true>(row, g) : steps<false>(row, g);
  }

 private:
  template <bool careful>
  void steps(float* row, std::span<const float> g) const {
    float* const squares = row + g.size();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float n = squares[i] + g[i] * g[i];
      if (careful && !is_finite(n)) continue;
      squares[i] = n;
      row[i] -= rate_ * g[i] / (std::sqrt(n) + epsilon_);
    }
  }

  const float rate_, epsilon_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_adagrad(const TableSpec& spec) {
  return std::make_unique<RowAdagrad>(spec);
}

}  // namespace gossamer::optim
