#include "consensus_step.h"

#include <algorithm>

namespace gossamer::node {
namespace {

constexpr double kAlmostAll = 0.999;  ///< δ from which on a code counts as exact
constexpr double kUsualPull = 5.0 / 3;
constexpr double kPullSlack = 1e-3;  ///< of weights that are rounded to float
constexpr double kLargest = 0.1;     ///< up to which twice δ is followed where the largest entries are taken
constexpr double kMargin = 1.4;      ///< what was stable over what is usual, at the least

/// A share of what is stable in mean square, beside the cap.
double safely_stable(const compress::Traits& codec, Gossiped gossiped) {
  const double stable = 2 * codec.delta / (2 - codec.delta);
  const double safe = stable / (gossiped == Gossiped::differences ? 2 : 3);
  return codec.largest ? std::max(safe, std::min(2 * codec.delta, kLargest)) : safe;
}

}  // namespace

ConsensusStep consensus_step(const compress::Traits& codec, double pull, Gossiped gossiped) {
  const bool differences = gossiped == Gossiped::differences;
  if (codec.exact) return {1, 1};
  if (codec.delta > kAlmostAll) return {differences ? 1 : 0.1, 1};
  const double damped = pull > kUsualPull + kPullSlack ? kUsualPull / pull : 1;
  const double safe = safely_stable(codec, gossiped);
  return {damped * std::min(differences ? 0.5 : 0.1, safe),
          damped * kMargin * std::min(differences ? 0.5 : 0.25, safe)};
}

}  // namespace gossamer::node
