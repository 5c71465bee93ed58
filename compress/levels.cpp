// What of a bucket's levels is worked out once, in scalars.
#include <bit>
#include <cmath>
#include <limits>

#include "level_kernels_inline.h"

namespace gossamer::compress {
namespace {

static_assert(1.0f / 7 * 7 == 1.0f && 1.0f / 127 * 127 == 1.0f, "the outermost level is the norm to the bit");

/// A power of two that moves numbers near the ends of float's range to where quotients are exact enough.
float shift_of(float width, float largest) {
  return largest > 0x1p70f ? 0x1p-80f : width < 0x1p-70f ? 0x1p80f : 1.0f;
}

/// The next float above a finite one that is not negative.
float next_above(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + 1); }

/// steps/width, but never so small that the whole width falls short of all steps. 0 for no width.
float inverse_of(float steps, float width) {
  if (width <= 0) return 0;
  const float inverse = steps / width;
  return width * inverse < steps ? next_above(inverse) : inverse;
}

/// Draws fill the fraction below a float in [2^bits, 2^(bits+1)) down to half of the last bit drawn: 16 bits,
/// 14 where there is no room for more.
void draw_between(Levels& levels, unsigned bits) {
  levels.bits = bits;
  levels.draw_mask = bits == 8 ? 0x7ffeu : 0xffffu << plain::draw_shift(bits);
  const auto base = std::bit_cast<std::uint32_t>(static_cast<float>(1u << bits) + levels.zero);
  levels.start = base | (bits == 8 ? 1u : 1u << (plain::draw_shift(bits) - 1));
}

/// Rounded up, so that no entry exceeds it; Inf where it is beyond float's range.
float l2_norm(double squares) {
  const double norm = std::sqrt(squares);
  if (norm > static_cast<double>(std::numeric_limits<float>::max()))
    return std::numeric_limits<float>::infinity();
  const auto rounded = static_cast<float>(norm);
  return rounded < norm ? next_above(rounded) : rounded;
}

}  // namespace

bool scales_of(Measure what, const Measured& found, float* scale) {
  scale[0] = what == Measure::range ? found.low : found.largest;
  if (what == Measure::range) scale[1] = found.high;
  if (!std::isfinite(found.largest)) return false;
  if (what == Measure::squares) scale[0] = l2_norm(found.squares);
  return std::isfinite(scale[0]);
}

Levels levels_of(const BucketRule& rule, const float* scale) {
  if (rule.measure == Measure::range) return levels_of_range(rule.bits, scale[0], scale[1], rule.stochastic);
  return levels_around_zero(rule.bits, levels_a_side(rule.bits), scale[0]);
}

Levels levels_around_zero(unsigned bits, unsigned s, float norm) {
  Levels levels;
  const auto steps = static_cast<float>(s);
  levels.top = 2 * s;
  levels.zero = steps;
  draw_between(levels, bits);
  levels.shift = shift_of(norm, norm);
  levels.inverse = inverse_of(steps, norm * levels.shift);
  levels.least = -steps;
  levels.most = steps;
  levels.step = 1 / steps;
  levels.unit = norm;
  return levels;
}

Levels levels_of_range(unsigned bits, float low, float high, bool stochastic) {
  Levels levels;
  levels.range = true;
  levels.top = (1u << bits) - 1;
  const auto steps = static_cast<float>(levels.top);
  draw_between(levels, bits);
  if (!stochastic) {
    levels.draw_mask = 0;
    levels.start = std::bit_cast<std::uint32_t>(static_cast<float>(1u << bits) + 0.5f);
  }
  const double width = static_cast<double>(high) - low;
  levels.shift =
      shift_of(static_cast<float>(std::min(width, 1.0)), std::max(std::fabs(low), std::fabs(high)));
  levels.origin = low * levels.shift;
  levels.inverse = inverse_of(steps, high * levels.shift - levels.origin);
  levels.most = steps;
  // Steps of a narrow range would be rounded too coarsely where they are denormal numbers.
  levels.unit = width < 0x1p-70 ? 0x1p-80f : 1.0f;
  levels.step = static_cast<float>(width / levels.top / levels.unit);
  levels.low = low;
  levels.high = high;
  return levels;
}

float level_value(const Levels& levels, unsigned field) { return plain::value(levels, field); }

}  // namespace gossamer::compress
