// The learning rate over the run. With T = total steps and w = ⌈warmup·T⌉ steps of linear rise to η, at place
// t:
//   constant: η     step: η·factor^⌊(t/T)/every⌋
//   cosine: η·½(1 + cos(π·(t−w)/(T−w)))   (Loshchilov, Hutter: SGDR, ICLR 2017, eq. 5, one period)
// The rise follows Goyal et al.: Accurate, Large Minibatch SGD, 2017, section 2.2 ("gradual warmup").
#include <algorithm>
#include <array>
#include <cmath>

#include "elementary.h"
#include "gossamer/optim/optimizer.h"
#include "names.h"

namespace gossamer::optim {
namespace {

double constant_factor(const OptimizerSpec&, double, double) { return 1; }

double step_factor(const OptimizerSpec& spec, double t, double) {
  constexpr double kMost = 1e18;  // drops, which an integer holds; there may be many in a step
  // A drop that falls on a step exactly must not be missed by rounding (0.3/0.1 < 3).
  const double drops = t / static_cast<double>(spec.total_steps) / spec.step_every + 1e-9;
  double factor = 1, power = spec.step_factor;
  for (auto left = static_cast<std::uint64_t>(std::min(drops, kMost)); left > 0; left /= 2) {
    if (left % 2 == 1) factor *= power;
    power *= power;
  }
  return factor;
}

double cosine_factor(const OptimizerSpec& spec, double t, double warm) {
  const double length = std::max(1.0, static_cast<double>(spec.total_steps) - warm);
  return 0.5 * (1 + portable_cos_pi(std::clamp((t - warm) / length, 0.0, 1.0)));
}

using Factor = double (*)(const OptimizerSpec&, double t, double warm);
constexpr std::array<Row<Factor>, 3> kSchedules{{
    {{"constant", "the same rate throughout"}, constant_factor},
    {{"step", "times step_factor after every step_every of the run", "step_every step_factor"}, step_factor},
    {{"cosine", "falls to 0 along half a cosine"}, cosine_factor},
}};
constexpr auto kScheduleHelp = help_of(kSchedules);

}  // namespace

std::span<const NamedHelp> rate_schedule_table() { return kScheduleHelp; }

bool is_constant_rate(std::string_view schedule) {
  return find_row(kSchedules, "learning rate schedule", schedule).make == constant_factor;
}

double learning_rate(const OptimizerSpec& spec, double place) {
  const auto& schedule = find_row(kSchedules, "learning rate schedule", spec.schedule);
  const double warm = std::ceil(spec.warmup * static_cast<double>(spec.total_steps) - 1e-9);
  if (place < warm) return spec.learning_rate * std::min(1.0, (place + 1) / warm);
  return spec.learning_rate * schedule.make(spec, place, warm);
}

}  // namespace gossamer::optim
