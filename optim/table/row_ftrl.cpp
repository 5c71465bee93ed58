// FTRL-proximal (McMahan et al.: Ad Click Prediction: a View from the Trenches, KDD 2013, algorithm 1):
//   σ = (√(n + g²) − √n)/α     z ← z + g − σ·w     n ← n + g²
//   w = 0 if |z| ≤ λ1, else −(z − sign(z)·λ1)/((β + √n)/α + λ2)
// A row keeps z and n only. First weights other than 0, and weights that others have changed, are put into z
// by solving the last line for it: the weight is exactly where FTRL with such a past would have it.
#include <algorithm>
#include <cmath>

#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowFtrl final : public RowOptimizer {
 public:
  explicit RowFtrl(const TableSpec& spec)
      : rule_{static_cast<float>(1 / spec.learning_rate), static_cast<float>(spec.beta),
              static_cast<float>(spec.l1), static_cast<float>(spec.l2)} {}

  void start(float* row, std::span<const float> weights) const override {
    const std::size_t width = weights.size();
    for (std::size_t i = 0; i < width; ++i) {
      row[width + i] = 0;
      row[i] = rule_.z_of(weights[i], 0);
    }
  }

  void read(const float* row, std::span<float> weights) const override {
    const Rule rule = rule_;
    const std::size_t width = weights.size();
    for (std::size_t i = 0; i < width; ++i) weights[i] = rule.weight(row[i], std::sqrt(row[width + i]));
  }

  void step(float* row, std::span<const float> g, std::uint32_t, bool careful) const override {
    careful ? steps<true>(row, g) : steps<false>(row, g);
  }

  void add(float* row, std::span<const float> deltas) const override {
    for (std::size_t i = 0; i < deltas.size(); ++i) {
      if (deltas[i] == 0) continue;  // a weight of 0 keeps its z, which says how near it is to another
      const float root = std::sqrt(row[deltas.size() + i]);
      row[i] = rule_.z_of(rule_.weight(row[i], root) + deltas[i], root);
    }
  }

  void adopt(float* row, std::span<const float> weights) const override {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float root = std::sqrt(row[weights.size() + i]);
      row[i] = weights[i] != 0 ? rule_.z_of(weights[i], root) : std::clamp(row[i], -rule_.l1, rule_.l1);
    }
  }

  bool zero(const float* row, std::size_t width) const override {
    return std::all_of(row, row + width, [&](float z) { return std::abs(z) <= rule_.l1; });
  }

 private:
  struct Rule {
    float over_alpha, beta, l1, l2;
    float curvature(float root) const { return (beta + root) * over_alpha + l2; }
    float weight(float z, float root) const {
      const float w = -(z - std::copysign(l1, z)) / curvature(root);
      return std::abs(z) <= l1 ? 0 : w;
    }
    /// The z of a weight.
    float z_of(float w, float root) const { return w == 0 ? 0 : -w * curvature(root) - std::copysign(l1, w); }
  };
  template <bool careful>
  void steps(float* row, std::span<const float> g) const {
    const Rule rule = rule_;
    float* const squares = row + g.size();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float n = squares[i] + g[i] * g[i], before = std::sqrt(squares[i]);
      if (careful && !is_finite(n)) continue;
      const float sigma = (std::sqrt(n) - before) * rule.over_alpha;
      row[i] += g[i] - sigma * rule.weight(row[i], before);
      squares[i] = n;
    }
  }

  const Rule rule_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_ftrl(const TableSpec& spec) { return std::make_unique<RowFtrl>(spec); }

}  // namespace gossamer::optim
