// Two ways to use a velocity v, the decaying sum of gradients d = g + λ·x:
//   v ← m·v + d
//   momentum: u = η·v            heavy ball (Polyak: Some methods of speeding up the convergence of iteration
//   methods,
//                                1964, eq. 9)
//   nesterov: u = η·(d + m·v)    Nesterov's gradient at the point looked ahead to, with the variables changed
//   so that x
//                                is that point (Sutskever et al.: On the importance of initialization and
//                                momentum in deep learning, ICML 2013, eqs. 3, 4)
#include "optimizers.h"

namespace gossamer::optim {
namespace {

template <bool look_ahead>
class Momentum final : public EntryOptimizer<Momentum<look_ahead>> {
 public:
  Momentum(const OptimizerSpec& spec, std::size_t buffer_size) : spec_(spec), velocity_(buffer_size) {}

  auto entry(double place, std::size_t offset, std::span<const float> x) {
    assert(offset + x.size() <= velocity_.size());
    const auto rate = static_cast<float>(learning_rate(spec_, place)),
               decay = static_cast<float>(spec_.weight_decay);
    const auto m = static_cast<float>(spec_.momentum), ahead = rate * m;
    float* velocity = velocity_.data() + offset;
    return [=](std::size_t i, float g) {
      const float d = g + decay * x[i];
      const float v = m * velocity[i] + d;
      velocity[i] = v;
      return look_ahead ? rate * d + ahead * v : rate * v;
    };
  }

  void show(StateVisitor& visitor) override { visitor.floats("velocity", velocity_); }

 private:
  OptimizerSpec spec_;
  LargeVector<float> velocity_;  ///< v
};

std::unique_ptr<Optimizer> make_momentum(const OptimizerSpec& spec, std::size_t buffer_size) {
  return std::make_unique<Momentum<false>>(spec, buffer_size);
}

std::unique_ptr<Optimizer> make_nesterov(const OptimizerSpec& spec, std::size_t buffer_size) {
  return std::make_unique<Momentum<true>>(spec, buffer_size);
}

}  // namespace

constinit const OptimizerKind kMomentum{
    .row = {"momentum", "heavy ball: v = m·v + g, u = rate·v", "momentum"},
    .make = make_momentum,
    .velocity = &OptimizerSpec::momentum};

constinit const OptimizerKind kNesterov{.row = {"nesterov", "v = m·v + g, u = rate·(g + m·v)", "momentum"},
                                        .make = make_nesterov,
                                        .velocity = &OptimizerSpec::momentum};

}  // namespace gossamer::optim
