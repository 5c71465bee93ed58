#include "level_formulas.h"

namespace gossamer::compress {

Levels levels_around_zero(unsigned bits, unsigned s, float norm) { return plain::around_zero(bits, s, norm); }

Levels levels_of_range(unsigned bits, float low, float high, bool stochastic) {
  return plain::of_range(bits, low, high, stochastic);
}

float level_value(const Levels& levels, unsigned field) { return plain::value(levels, field); }

}  // namespace gossamer::compress
