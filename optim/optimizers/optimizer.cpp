#include "gossamer/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "names.h"
#include "optimizers.h"

namespace gossamer::optim {
namespace {

// One row an optimiser; each stands at the end of its own file.
constexpr std::array kOptimizers{&kSgd, &kMomentum, &kNesterov, &kAdam, &kQuasiGlobal};

const OptimizerKind& optimizer_named(std::string_view kind) {
  return find_kind(kOptimizers, "optimizer kind", kind);
}

void require(bool good, const char* what, double found, const char* expected) {
  if (good) return;
  throw OptimError(std::string("optimizer ") + what + ": found " + std::to_string(found) + ", expected " +
                   expected);
}

void check(const OptimizerSpec& s) {
  require(std::isfinite(s.learning_rate) && s.learning_rate >= 0, "learning_rate", s.learning_rate,
          "at least 0");
  require(s.momentum >= 0 && s.momentum < 1, "momentum", s.momentum, "at least 0 and below 1");
  require(s.beta1 >= 0 && s.beta1 < 1, "beta1", s.beta1, "at least 0 and below 1");
  require(s.beta2 >= 0 && s.beta2 < 1, "beta2", s.beta2, "at least 0 and below 1");
  require(std::isfinite(s.epsilon) && s.epsilon >= 1e-38, "epsilon", s.epsilon,
          "at least 1e-38, which is more than 0 as a float");
  require(std::isfinite(s.weight_decay) && s.weight_decay >= 0, "weight_decay", s.weight_decay, "at least 0");
  require(s.warmup >= 0 && s.warmup < 1, "warmup", s.warmup, "a fraction of the run, at least 0 and below 1");
  require(s.total_steps >= 1, "total_steps", 0, "at least 1");
  if (!reads(rate_schedule_table(), s.schedule, "step_every")) return;
  require(s.step_every > 0 && s.step_every <= 1, "step_every", s.step_every,
          "the fraction of the run between drops, above 0 and at most 1");
  require(s.step_factor > 0 && s.step_factor <= 1, "step_factor", s.step_factor, "above 0 and at most 1");
}

}  // namespace

void Optimizer::apply(double place, std::size_t offset, std::span<float> x, std::span<float> g) {
  step(place, offset, x, g, g);
  std::transform(x.begin(), x.end(), g.begin(), x.begin(), std::minus());
}

/// Where a step is of all entries together they have been taken before the first piece.
Optimizer::Pieces Optimizer::apply_in_pieces(double place, std::size_t offset, std::span<float> x,
                                             std::span<float> g) {
  apply(place, offset, x, g);
  return [](std::size_t, std::size_t) {};
}

std::span<const NamedHelp> optimizer_table() {
  static const auto kHelp = help_of(kOptimizers);
  return kHelp;
}

const OptimizerTraits& optimizer_traits(std::string_view kind) { return optimizer_named(kind).traits; }

std::optional<double> velocity_decay(const OptimizerSpec& spec) {
  const OptimizerKind& kind = optimizer_named(spec.kind);
  if (!kind.traits.of_gradients_alone) return std::nullopt;
  return kind.velocity ? spec.*kind.velocity : 0;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, std::size_t buffer_size) {
  const OptimizerKind& kind = optimizer_named(spec.kind);
  check(spec);
  if (spec.steps_between == 0) throw OptimError("steps_between is 0; expected at least 1");
  learning_rate(spec, 0);  // refuses an unknown schedule now rather than in the first step
  return kind.make(spec, buffer_size);
}

}  // namespace gossamer::optim
