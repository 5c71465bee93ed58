// Stochastic gradient descent (Robbins, Monro: A Stochastic Approximation Method, 1951): u = η·(g + λ·x).
#include "optimizers.h"

namespace gossamer::optim {
namespace {

class Sgd final : public EntryOptimizer<Sgd> {
 public:
  explicit Sgd(const OptimizerSpec& spec) : spec_(spec) {}

  auto entry(double place, std::size_t, std::span<const float> x) {
    const auto rate = static_cast<float>(learning_rate(spec_, place)),
               decay = static_cast<float>(spec_.weight_decay);
    return [=](std::size_t i, float g) { return rate * (g + decay * x[i]); };
  }

  bool is_idle_without_gradient() const override { return spec_.weight_decay == 0; }
  void show(StateVisitor&) override {}

 private:
  OptimizerSpec spec_;
};

std::unique_ptr<Optimizer> make_sgd(const OptimizerSpec& spec, std::size_t) {
  return std::make_unique<Sgd>(spec);
}

}  // namespace

constinit const OptimizerKind kSgd{
    .row = {"sgd", "u = rate·g"}, .make = make_sgd, .traits = {.keeps_state = false}};

}  // namespace gossamer::optim
