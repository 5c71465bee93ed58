// Quasi-global momentum (Lin, Karimireddy, Stich & Jaggi 2021, "Quasi-global momentum: accelerating
// decentralized deep learning on heterogeneous data", algorithm 1): the momentum is the direction that the
// model really took, the mixing with others included, so that heterogeneous data do not pull peers apart.
//
//   u = η·(m·q + g + λ·x)     x½ = x − u;  x⁺ = what mixing makes of it
//   q ← m·q + (1 − m)·(x − x⁺)/η, at the η that the step was taken with
//
// x⁺ is first seen as the x of the next step, where q is brought up to date before it is used.
#include <map>

#include "optimizers.h"

namespace gossamer::optim {
namespace {

class QuasiGlobal final : public EntryOptimizer<QuasiGlobal> {
 public:
  QuasiGlobal(const OptimizerSpec& spec, std::size_t buffer_size)
      : spec_(spec), direction_(buffer_size, 0.0f), before_(buffer_size) {}

  auto entry(double place, std::size_t offset, std::span<const float> x) {
    assert(offset + x.size() <= direction_.size());
    float* q = direction_.data() + offset;
    float* before = before_.data() + offset;
    const auto m = static_cast<float>(spec_.momentum);
    double& last_rate = last_rate_[offset];
    if (last_rate > 0) {
      const auto share = static_cast<float>((1 - spec_.momentum) / last_rate);
      for (std::size_t i = 0; i < x.size(); ++i) q[i] = m * q[i] + share * (before[i] - x[i]);
    }
    std::copy(x.begin(), x.end(), before);
    last_rate = learning_rate(spec_, place);
    const auto rate = static_cast<float>(last_rate), decay = static_cast<float>(spec_.weight_decay);
    return [=](std::size_t i, float g) { return rate * (m * q[i] + (g + decay * x[i])); };
  }

  void show(StateVisitor& visitor) override {
    visitor.floats("direction", direction_);
    visitor.floats("before", before_);
    visitor.by_offset("last_rate", last_rate_);
  }

 private:
  OptimizerSpec spec_;
  LargeVector<float> direction_;             ///< q
  LargeVector<float> before_;                ///< x of the last step
  std::map<std::size_t, double> last_rate_;  ///< by the range's offset; 0 before the first step
};

std::unique_ptr<Optimizer> make_quasi_global(const OptimizerSpec& spec, std::size_t buffer_size) {
  return std::make_unique<QuasiGlobal>(spec, buffer_size);
}

}  // namespace

constinit const OptimizerKind kQuasiGlobal{
    .row = {"quasi_global", "momentum of the direction really taken, mixing included, for heterogeneous data",
            "momentum"},
    .make = make_quasi_global,
    .traits = {.of_gradients_alone = false, .adds_up = false}};

}  // namespace gossamer::optim
