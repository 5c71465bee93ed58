#include "gossamer/optim/optimizer.h"

#include <array>
#include <cmath>

#include "names.h"
#include "optimizers.h"

namespace gossamer::optim {
namespace {

struct Part {
  std::unique_ptr<Optimizer> (*make)(const OptimizerSpec&, std::size_t);
  double OptimizerSpec::*velocity = nullptr;  ///< decay of what it makes of gradients
  bool of_gradients_alone = true;
};
constexpr std::array<Row<Part>, 5> kOptimizers{{
    {{"sgd", "u = rate·g"}, {make_sgd}},
    {{"momentum", "heavy ball: v = m·v + g, u = rate·v"}, {make_momentum, &OptimizerSpec::momentum}},
    {{"nesterov", "v = m·v + g, u = rate·(g + m·v)"}, {make_nesterov, &OptimizerSpec::momentum}},
    {{"quasi_global", "momentum of the direction really taken, mixing included, for heterogeneous data"},
     {make_quasi_global, nullptr, false}},
    {{"adam", "adaptive moments with decoupled weight decay (AdamW)"}, {make_adam, &OptimizerSpec::beta1}},
}};
constexpr auto kHelp = help_of(kOptimizers);

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
  require(std::isfinite(s.epsilon) && s.epsilon > 0, "epsilon", s.epsilon, "more than 0");
  require(std::isfinite(s.weight_decay) && s.weight_decay >= 0, "weight_decay", s.weight_decay, "at least 0");
  require(s.warmup >= 0 && s.warmup < 1, "warmup", s.warmup, "a fraction of the run, at least 0 and below 1");
  require(s.total_steps >= 1, "total_steps", 0, "at least 1");
  if (s.schedule != "step") return;
  require(s.step_every > 0 && s.step_every <= 1, "step_every", s.step_every,
          "the fraction of the run between drops, above 0 and at most 1");
  require(s.step_factor > 0 && s.step_factor <= 1, "step_factor", s.step_factor, "above 0 and at most 1");
}

}  // namespace

std::span<const NamedHelp> optimizer_table() { return kHelp; }

std::optional<double> velocity_decay(const OptimizerSpec& spec) {
  const Part& part = find_row(kOptimizers, "optimizer kind", spec.kind).make;
  if (!part.of_gradients_alone) return std::nullopt;
  return part.velocity ? spec.*part.velocity : 0;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, std::size_t buffer_size) {
  const auto& row = find_row(kOptimizers, "optimizer kind", spec.kind);
  check(spec);
  learning_rate(spec, 0);  // refuses an unknown schedule now rather than in the first step
  return row.make.make(spec, buffer_size);
}

}  // namespace gossamer::optim
