// Adam (Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015, algorithm 1), lazy: a row's
// moments, and its own count t of updates, stand still while it has no gradient:
//   m ← β1·m + (1−β1)·g     v ← β2·v + (1−β2)·g²     w ← w − η·m/(1−β1ᵗ) / (√(v/(1−β2ᵗ)) + ε)
#include <cmath>

#include "elementary.h"
#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowAdam final : public WeightsInFront {
 public:
  explicit RowAdam(const TableSpec& spec) : WeightsInFront(3), spec_(spec) {}
  void step(float* row, std::span<const float> g, std::uint32_t updates) const override {
    const auto rate = static_cast<float>(spec_.learning_rate / (1 - power(spec_.beta1, updates)));
    const auto scale = static_cast<float>(1 / (1 - power(spec_.beta2, updates)));
    const auto keep1 = static_cast<float>(spec_.beta1), add1 = static_cast<float>(1 - spec_.beta1);
    const auto keep2 = static_cast<float>(spec_.beta2), add2 = static_cast<float>(1 - spec_.beta2);
    const auto epsilon = static_cast<float>(spec_.epsilon);
    float *const means = row + g.size(), *const squares = means + g.size();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float m = means[i] = keep1 * means[i] + add1 * g[i];
      const float v = squares[i] = keep2 * squares[i] + add2 * g[i] * g[i];
      row[i] -= rate * m / (std::sqrt(v * scale) + epsilon);
    }
  }

 private:
  const TableSpec spec_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_adam(const TableSpec& spec) { return std::make_unique<RowAdam>(spec); }

}  // namespace gossamer::optim
