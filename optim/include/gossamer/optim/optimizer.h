#pragma once
// An Optimizer turns a gradient into the step u that is subtracted from the parameters.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

struct OptimizerSpec {
  std::string kind = "sgd";  ///< a name of optimizer_table()
  double learning_rate = 0.05;
  double momentum = 0.9;                              ///< momentum, nesterov, quasi_global: decay per step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< adam
  double weight_decay = 0;            ///< adds weight_decay·x to the gradient (adam: decoupled, AdamW)
  std::string schedule = "constant";  ///< constant, step, cosine
  double step_every = 0;              ///< step: fraction of the run between drops, in (0,1]
  double step_factor = 0.1;           ///< step: factor at each drop
  double warmup = 0;                  ///< fraction of the run with linearly rising rate, in [0,1)
  std::uint64_t total_steps = 1;      ///< length of the schedule
  /// adam: steps in which the second moment learns, after which it stands (1-bit Adam); 0: all.
  std::uint64_t second_moment_steps = 0;
  /// quasi_global: from one mixing with others to the next, ≥ 1.
  std::uint64_t steps_between = 1;
};
/// What others may know of an optimiser.
struct OptimizerTraits {
  bool keeps_state = true;               ///< its step depends on earlier gradients too
  bool of_gradients_alone = true;        ///< and on nothing but these: not on what mixing made of the steps
  bool adapts_by_second_moment = false;  ///< learns from g², of which coarse codes of g say nothing
  /// Peers that take the same gradients in different rounds come to the same sum of steps in the end.
  bool adds_up = true;
};
std::span<const NamedHelp> optimizer_table();  ///< the keys are those of [optimizer]
/// Throws OptimError for an unknown name, as make_optimizer.
const OptimizerTraits& optimizer_traits(std::string_view kind);

std::span<const NamedHelp> rate_schedule_table();  ///< the keys are those of [optimizer]
/// Whether the rate stays as it is after the warm-up. Throws OptimError for an unknown name.
bool is_constant_rate(std::string_view schedule);

/// The decay m of the velocity v = m·v + g, or a multiple of it, that the optimiser makes of its gradients
/// alone: 0 where it keeps none, nothing where what it keeps depends on more than gradients (quasi_global).
/// Throws OptimError for unknown names.
std::optional<double> velocity_decay(const OptimizerSpec& spec);

/// η at a place in the schedule: how many of its steps have passed, in [0, total_steps]; not always a whole
/// number.
double learning_rate(const OptimizerSpec& spec, double place);

/// Is shown each piece of an object's state by its name; it may read it, or put something else there.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  /// Whether there is something of that name to put there; for who only reads, always.
  virtual bool has(const char* /*name*/) const { return true; }
  virtual void floats(const char* name, std::span<float> values) = 0;
  /// By a range's offset in the parameter buffer; there may be more of them or fewer than before.
  virtual void by_offset(const char* name, std::map<std::size_t, std::uint64_t>& values) = 0;
  virtual void by_offset(const char* name, std::map<std::size_t, double>& values) = 0;
};

/// State per parameter lives here, addressed by offset in the parameter buffer; ranges may be stepped in any
/// order, but are always the same ones. How many steps a range has really taken is counted here, apart from
/// the place in the schedule, of which steps may be skipped. One thread at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// u ← the step at a place in the schedule (see learning_rate) for the range [offset, offset + x.size())
  /// given gradient g; the caller applies x ← x − u. u may be g.
  virtual void step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
                    std::span<float> u) = 0;
  /// x ← x − u of the same, to the bit, in one pass where the optimiser has one. What is in g then is
  /// nobody's.
  virtual void apply(double place, std::size_t offset, std::span<float> x, std::span<float> g);
  /// The same step, which whoever is given this takes: of entries [first, first + n) of the range, until all
  /// have been taken, each once, by any threads. Both spans live as long.
  using Pieces = std::function<void(std::size_t first, std::size_t n)>;
  virtual Pieces apply_in_pieces(double place, std::size_t offset, std::span<float> x, std::span<float> g);
  /// The same of gradients that stand nowhere: who is given this takes the step of entries [first,
  /// first + g.size()) of the range by theirs, in the same way. Empty: the optimiser has no such step, and
  /// has taken none.
  using Blocks = std::function<void(std::size_t first, std::span<const float> g)>;
  virtual Blocks apply_in_blocks(double /*place*/, std::size_t /*offset*/, std::span<float> /*x*/) {
    return {};
  }
  /// Whether a step by gradients that are 0 changes nothing, neither x nor what it keeps, and that of an
  /// entry is the same wherever it stands: then those that are not 0 may be stepped by alone.
  virtual bool is_idle_without_gradient() const { return false; }
  /// All that it keeps from one step to the next.
  virtual void show(StateVisitor& visitor) = 0;
};
/// A step that is taken elsewhere: after ← what becomes of x under the gradient g, for the range of the
/// parameter buffer that begins at offset. Its state is its own.
using ExternalStep = std::function<void(double place, std::size_t offset, std::span<const float> x,
                                        std::span<const float> g, std::span<float> after)>;
/// u = x − after. Methods that average gradients before the step hand the averaged one to it, others the
/// peer's own.
std::unique_ptr<Optimizer> make_external_optimizer(ExternalStep step);
/// Throws OptimError for unknown names and values out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, std::size_t buffer_size);

}  // namespace gossamer::optim
