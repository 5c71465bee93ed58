// What the age of the models that peers mix costs a run: x ← W_ii x(t) + Σ_j W_ij x_j(t − D) − u, where all
// are near each other, goes on by u / (1 + (1 − W_ii) D) a round, as models of D rounds ago hold the mean
// back.
#include <fmt/format.h>

#include "method.h"
#include "summary.h"

namespace gossamer::node {

std::string told_of_model_age(const Prepared& prepared, double age) {
  const Method& method = find_method(prepared.job.exchange.method);
  if (!method.invariants.newest_only || closes_early(prepared.job.exchange)) return {};
  const topology::Schedule& schedule = prepared.plan->schedule;
  double others = 0, rows = 0;
  for (std::size_t t = 0; t < schedule.period(); ++t)
    for (PeerId p = 0; p < schedule.peers(); ++p, ++rows)
      others += 1 - static_cast<double>(schedule.at(t).self_weight(p));
  const double share = 1 / (1 + others / rows * age);
  if (share >= 0.5) return {};
  return fmt::format(
      "the oldest models that peers mixed were {:.1f} rounds old on average, and held the mean back: steps "
      "may "
      "have counted as little as {:.2g} of themselves; use method 'pairwise' or 'push_sum', which lose "
      "nothing, or a "
      "smaller exchange.staleness\n",
      age, share);
}

}  // namespace gossamer::node
