// Adam (Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015, algorithm 1) with decoupled weight
// decay (Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019, algorithm 2). In a range's
// n-th step:
//   m ← β1·m + (1−β1)·g     v ← β2·v + (1−β2)·g²     u = η·(m/(1−β1ⁿ) / (√(v/(1−β2ⁿ)) + ε) + λ·x)
//
// 1-bit Adam (Tang et al.: 1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence
// Speed, ICML 2021): what comes from coarse codes says little of g², so that v stands after
// second_moment_steps steps. An entry whose gradient was 0 until then (a pixel that is always black) would
// have v = 0, and the code's noise over √v would be a step without bound: v is raised to a tenth of its mean
// over the range, once.
#include <algorithm>
#include <cmath>
#include <map>

#include "elementary.h"
#include "optimizers.h"

namespace gossamer::optim {
namespace {

/// Of the range's mean second moment: what is left of it everywhere when it no longer learns.
constexpr double kLeastSquare = 0.1;

class Adam final : public EntryOptimizer<Adam> {
 public:
  Adam(const OptimizerSpec& spec, std::size_t buffer_size)
      : spec_(spec), mean_(buffer_size), square_(buffer_size) {}

  auto entry(double place, std::size_t offset, std::span<const float> x) {
    assert(offset + x.size() <= mean_.size());
    const double rate = learning_rate(spec_, place);
    const std::uint64_t n = ++steps_[offset], last = spec_.second_moment_steps;
    const bool learns = last == 0 || n <= last;
    if (last != 0 && n == last + 1) raise_least({square_.data() + offset, x.size()});
    const auto mean_rate = static_cast<float>(rate / (1 - power(spec_.beta1, n)));
    const auto square_scale = static_cast<float>(1 / (1 - power(spec_.beta2, learns ? n : last)));
    const auto keep1 = static_cast<float>(spec_.beta1), add1 = static_cast<float>(1 - spec_.beta1);
    const auto keep2 = static_cast<float>(learns ? spec_.beta2 : 1),
               add2 = static_cast<float>(learns ? 1 - spec_.beta2 : 0);
    const auto epsilon = static_cast<float>(spec_.epsilon),
               decay = static_cast<float>(rate * spec_.weight_decay);
    float *mean = mean_.data() + offset, *square = square_.data() + offset;
    return [=](std::size_t i, float g) {
      const float m = mean[i] = keep1 * mean[i] + add1 * g;
      const float v = square[i] = keep2 * square[i] + add2 * g * g;
      return mean_rate * m / (std::sqrt(v * square_scale) + epsilon) + decay * x[i];
    };
  }

  void show(StateVisitor& visitor) override {
    visitor.floats("mean", mean_);
    visitor.floats("square", square_);
    visitor.by_offset("steps", steps_);
  }

 private:
  static void raise_least(std::span<float> square) {
    double sum = 0;
    for (const float v : square) sum += static_cast<double>(v);
    const auto least = static_cast<float>(kLeastSquare * sum / static_cast<double>(square.size()));
    for (float& v : square) v = std::max(v, least);
  }

  OptimizerSpec spec_;
  LargeVector<float> mean_, square_;            ///< m, v
  std::map<std::size_t, std::uint64_t> steps_;  ///< taken, by the range's offset
};

std::unique_ptr<Optimizer> make_adam(const OptimizerSpec& spec, std::size_t buffer_size) {
  return std::make_unique<Adam>(spec, buffer_size);
}

}  // namespace

constinit const OptimizerKind kAdam{
    .row = {"adam", "adaptive moments with decoupled weight decay (AdamW)", "beta1 beta2 epsilon"},
    .make = make_adam,
    .traits = {.adapts_by_second_moment = true, .adds_up = false},
    .velocity = &OptimizerSpec::beta1};

}  // namespace gossamer::optim
