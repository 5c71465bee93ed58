// Adam (Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015, algorithm 1), lazy: a row's
// moments, and its own count t of updates, stand still while it has no gradient:
//   m ← β1·m + (1−β1)·g     v ← β2·v + (1−β2)·g²     w ← w − η·m/(1−β1ᵗ) / (√(v/(1−β2ᵗ)) + ε)
#include <array>
#include <cmath>

#include "elementary.h"
#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowAdam final : public WeightsInFront {
 public:
  explicit RowAdam(const TableSpec& spec) : WeightsInFront(3), spec_(spec) {
    for (std::uint32_t t = 1; t <= kKnown; ++t) known_[t - 1] = corrections(t);
  }
  void step(float* row, std::span<const float> g, std::uint32_t updates, bool careful) const override {
    careful ? steps<true>(row, g, updates) : steps<false>(row, g, updates);
  }

 private:
  template <bool careful>
  void steps(float* row, std::span<const float> g, std::uint32_t updates) const {
    const auto [rate, scale] = updates >= 1 && updates <= kKnown ? known_[updates - 1] : corrections(updates);
    const auto keep1 = static_cast<float>(spec_.beta1), add1 = static_cast<float>(1 - spec_.beta1);
    const auto keep2 = static_cast<float>(spec_.beta2), add2 = static_cast<float>(1 - spec_.beta2);
    const auto epsilon = static_cast<float>(spec_.epsilon);
    float *const means = row + g.size(), *const squares = means + g.size();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float v = keep2 * squares[i] + add2 * g[i] * g[i];
      if (careful && !is_finite(v * scale)) continue;
      const float m = means[i] = keep1 * means[i] + add1 * g[i];
      squares[i] = v;
      row[i] -= rate * m / (std::sqrt(v * scale) + epsilon);
    }
  }

  /// η/(1−β1ᵗ) and 1/(1−β2ᵗ)
  struct Corrections {
    float rate, scale;
  };
  Corrections corrections(std::uint32_t t) const {
    return {static_cast<float>(spec_.learning_rate / (1 - power(spec_.beta1, t))),
            static_cast<float>(1 / (1 - power(spec_.beta2, t)))};
  }

  /// Most rows have few updates, each row another number: powers cost more than the rest of a narrow step.
  static constexpr std::uint32_t kKnown = 1024;
  const TableSpec spec_;
  std::array<Corrections, kKnown> known_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_adam(const TableSpec& spec) { return std::make_unique<RowAdam>(spec); }

}  // namespace gossamer::optim
