// A convex problem with a known answer: f(x) = mean over rows r of ½ Σ_k h_k (x_k − r_k)², with curvatures
// h_k spread evenly from 1 (k = 0) down to 0.1. Its minimum is the mean of the rows, whatever h. Own loops,
// left to right, in double: equal bits from every compiler.
#include <algorithm>
#include <cassert>

#include "models.h"
#include "scratch.h"

namespace gossamer::optim {
namespace {

class Quadratic final : public Model {
 public:
  explicit Quadratic(std::size_t features) : curvature_(features) {
    add_layer("x", {{"x", {features}, 0}});
    const double steps = features > 1 ? static_cast<double>(features - 1) : 1.0;
    for (std::size_t k = 0; k < features; ++k) curvature_[k] = 1.0 - 0.9 * (static_cast<double>(k) / steps);
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    assert(x.size() == buffer_size());
    std::fill(x.begin(), x.end(), 0.0f);
    fill_normal(seed, 0, 1.0, x.first(curvature_.size()));
  }

  double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                  const OnLayer& on_layer) override {
    assert(g.size() == buffer_size());
    const std::size_t n = curvature_.size();
    std::span<double> sum = sum_.need(n);
    const double loss = loss_sum(x, batch, sum);
    const double share = 1.0 / static_cast<double>(batch.size);
    for (std::size_t k = 0; k < n; ++k) g[k] = static_cast<float>(curvature_[k] * sum[k] * share);
    std::fill(g.begin() + static_cast<std::ptrdiff_t>(n), g.end(), 0.0f);
    if (on_layer) on_layer(0);
    return loss * share;
  }

  Evaluation evaluate(std::span<const float> x, const Batch& batch) override {
    return {loss_sum(x, batch, sum_.need(curvature_.size())), 0, batch.size, false};
  }

 private:
  /// Σ over rows of the loss; sum[k] ← Σ over rows of x_k − r_k.
  double loss_sum(std::span<const float> x, const Batch& batch, std::span<double> sum) {
    const std::size_t n = curvature_.size();
    assert(x.size() == buffer_size() && batch.size >= 1 && batch.features == n);
    std::span<double> square = square_.need(n);
    std::fill(sum.begin(), sum.end(), 0.0);
    std::fill(square.begin(), square.end(), 0.0);
    for (std::size_t b = 0; b < batch.size; ++b) {
      const float* row = batch.x.data() + b * n;
      for (std::size_t k = 0; k < n; ++k) {
        const double d = static_cast<double>(x[k]) - static_cast<double>(row[k]);
        sum[k] += d;
        square[k] += d * d;
      }
    }
    double loss = 0;
    for (std::size_t k = 0; k < n; ++k) loss += curvature_[k] * square[k];
    return 0.5 * loss;
  }

  std::vector<double> curvature_;  ///< h
  Scratch<double> sum_, square_;
};

std::unique_ptr<Model> make_quadratic(const ModelSpec& spec) {
  if (spec.features == 0)
    throw OptimError("model quadratic: found data without features, expected at least 1");
  return std::make_unique<Quadratic>(spec.features);
}

}  // namespace

constinit const ModelKind kQuadratic{
    .row = {"quadratic", "weighted squared distance to the rows; the optimum is the mean of the data"},
    .make = make_quadratic,
    .traits = {.classifier = false}};

}  // namespace gossamer::optim
