// FTRL-proximal (McMahan et al.: Ad Click Prediction: a View from the Trenches, KDD 2013, algorithm 1):
//   σ = (√(n + g²) − √n)/α     z ← z + g − σ·w     n ← n + g²
//   w = 0 if |z| ≤ λ1, else −(z − sign(z)·λ1)/((β + √n)/α + λ2)
// A row keeps z and n only. First weights other than 0, and weights that others have changed, are put into z
// by solving the last line for it: the weight is exactly where FTRL with such a past would have it.
#include <cmath>

#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowFtrl final : public RowOptimizer {
 public:
  explicit RowFtrl(const TableSpec& spec)
      : width_(spec.width),
        over_alpha_(static_cast<float>(1 / spec.learning_rate)),
        beta_(static_cast<float>(spec.beta)),
        l1_(static_cast<float>(spec.l1)),
        l2_(static_cast<float>(spec.l2)) {}

  void start(float* row, const float* weights) const override {
    for (std::size_t i = 0; i < width_; ++i) {
      row[width_ + i] = 0;
      row[i] = z_of(weights[i], 0);
    }
  }

  void read(const float* row, float* weights) const override {
    for (std::size_t i = 0; i < width_; ++i) weights[i] = weight(row[i], std::sqrt(row[width_ + i]));
  }

  void step(float* row, const float* g, std::uint32_t) const override {
    float* const squares = row + width_;
    for (std::size_t i = 0; i < width_; ++i) {
      const float n = squares[i] + g[i] * g[i], before = std::sqrt(squares[i]);
      const float sigma = (std::sqrt(n) - before) * over_alpha_;
      row[i] += g[i] - sigma * weight(row[i], before);
      squares[i] = n;
    }
  }

  void add(float* row, const float* deltas) const override {
    for (std::size_t i = 0; i < width_; ++i) {
      if (deltas[i] == 0) continue;  // a weight of 0 keeps its z, which says how near it is to another
      const float root = std::sqrt(row[width_ + i]);
      row[i] = z_of(weight(row[i], root) + deltas[i], root);
    }
  }

  bool zero(const float* row) const override {
    for (std::size_t i = 0; i < width_; ++i)
      if (std::abs(row[i]) > l1_) return false;
    return true;
  }

 private:
  float curvature(float root) const { return (beta_ + root) * over_alpha_ + l2_; }
  float weight(float z, float root) const {
    if (std::abs(z) <= l1_) return 0;
    return -(z - std::copysign(l1_, z)) / curvature(root);
  }
  /// The z of a weight.
  float z_of(float w, float root) const { return w == 0 ? 0 : -w * curvature(root) - std::copysign(l1_, w); }

  const std::size_t width_;
  const float over_alpha_, beta_, l1_, l2_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_ftrl(const TableSpec& spec) { return std::make_unique<RowFtrl>(spec); }

}  // namespace gossamer::optim
