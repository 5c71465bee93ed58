// What of a bucket's levels is worked out once, in scalars.
#include <cmath>

#include "level_formulas.h"

namespace gossamer::compress {

bool scales_of(Measure what, const Measured& found, float* scale) {
  scale[0] = what == Measure::range ? found.low : found.largest;
  if (what == Measure::range) scale[1] = found.high;
  if (!std::isfinite(found.largest)) return false;
  if (what == Measure::squares) scale[0] = plain::rounded_up(std::sqrt(found.squares));
  return std::isfinite(scale[0]);
}

Levels levels_of(const BucketRule& rule, const float* scale) {
  if (rule.range()) return levels_of_range(rule.bits, scale[0], scale[1], rule.stochastic);
  return levels_around_zero(rule.bits, rule.a_side, scale[0]);
}

Levels levels_around_zero(unsigned bits, unsigned s, float norm) { return plain::around_zero(bits, s, norm); }

Levels levels_of_range(unsigned bits, float low, float high, bool stochastic) {
  return plain::of_range(bits, low, high, stochastic);
}

float level_value(const Levels& levels, unsigned field) { return plain::value(levels, field); }

}  // namespace gossamer::compress
