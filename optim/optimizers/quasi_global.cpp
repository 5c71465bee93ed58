// Quasi-global momentum (Lin, Karimireddy, Stich & Jaggi 2021, "Quasi-global momentum: accelerating
// decentralized deep learning on heterogeneous data", algorithm 1): the momentum is the direction that the
// model really took, the mixing with others included, so that heterogeneous data do not pull peers apart.
//
//   u = η·(m·q + g + λ·x)     x½ = x − u;  x⁺ = what mixing makes of it
//   q ← m·q + (1 − m)·(x − x⁺)/η, at the η that the step was taken with
//
// x⁺ is first seen as the x of the next step, where q is brought up to date before it is used. With H steps
// from one mixing to the next q stands still among them, and is then brought up to date once, by what all of
// them and the mixing made of x over the sum of their η: q taken anew in each of them would repeat one
// mixing's correction H times, and drive peers apart.
#include "quasi_global.h"
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
    const double eta = learning_rate(spec_, place);
    const QuasiGlobalPeriod::Due due = period_.step(offset, eta);
    if (due.share > 0) {
      const auto share = static_cast<float>(due.share);
      for (std::size_t i = 0; i < x.size(); ++i) q[i] = m * q[i] + share * (before[i] - x[i]);
    }
    if (due.begins) std::copy(x.begin(), x.end(), before);
    const auto rate = static_cast<float>(eta), decay = static_cast<float>(spec_.weight_decay);
    return [=](std::size_t i, float g) { return rate * (m * q[i] + (g + decay * x[i])); };
  }

  void show(StateVisitor& visitor) override {
    visitor.floats("direction", direction_);
    visitor.floats("before", before_);
    period_.show(visitor);
  }

 private:
  OptimizerSpec spec_;
  LargeVector<float> direction_;  ///< q
  LargeVector<float> before_;     ///< x of the period's first step
  QuasiGlobalPeriod period_{spec_};
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
