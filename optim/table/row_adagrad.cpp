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
  void step(float* row, std::span<const float> g, std::uint32_t) const override {
    float* const squares = row + g.size();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float n = squares[i] + g[i] * g[i];
      const float w = row[i] - rate_ * g[i] / (std::sqrt(n) + epsilon_);
      row[i] = is_finite(n) ? w : row[i];
      squares[i] = is_finite(n) ? n : squares[i];
    }
  }

 private:
  const float rate_, epsilon_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_adagrad(const TableSpec& spec) {
  return std::make_unique<RowAdagrad>(spec);
}

}  // namespace gossamer::optim
