#pragma once
// The arithmetic of one bucket's levels and of one entry, for the CPU and for CUDA devices.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "level_kernels.h"

namespace gossamer::compress::plain {

static_assert(1.0f / 7 * 7 == 1.0f && 1.0f / 127 * 127 == 1.0f, "the outermost level is the norm to the bit");
static_assert(
    [] {
      for (int s = 1; s <= 127; ++s) {
        if (1.0f / static_cast<float>(s) * static_cast<float>(s) > 1.0f) return false;
      }
      return true;
    }(),
    "no level is beyond the norm");

/// Shift of a draw to its place in the fraction of a float in [2^bits, 2^(bits+1)).
constexpr int draw_shift(unsigned bits) { return bits == 8 ? -1 : 7 - static_cast<int>(bits); }

/// A power of two that moves numbers near the ends of float's range to where quotients are exact enough.
constexpr float shift_of(float width, float largest) {
  return largest > 0x1p70f ? 0x1p-80f : width < 0x1p-70f ? 0x1p80f : 1.0f;
}

/// The next float above x > 0.
constexpr float next_above(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + 1); }

/// steps/width, but never so small that the whole width falls short of all steps. 0 for no width.
constexpr float inverse_of(float steps, float width) {
  if (width <= 0) return 0;
  const float inverse = steps / width;
  return width * inverse < steps ? next_above(inverse) : inverse;
}

/// Draws fill the fraction below a float in [2^bits, 2^(bits+1)) down to half of the last bit drawn: 16 bits,
/// 14 where there is no room for more.
constexpr void draw_between(Levels& levels, unsigned bits) {
  levels.bits = bits;
  levels.draw_mask = bits == 8 ? 0x7ffeu : 0xffffu << draw_shift(bits);
  const auto base = std::bit_cast<std::uint32_t>(static_cast<float>(1u << bits) + levels.zero);
  levels.start = base | (bits == 8 ? 1u : 1u << (draw_shift(bits) - 1));
}

/// levels_around_zero.
constexpr Levels around_zero(unsigned bits, unsigned s, float norm) {
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

/// levels_of_range.
constexpr Levels of_range(unsigned bits, float low, float high, bool stochastic) {
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
  const float largest = std::max(low < 0 ? -low : low, high < 0 ? -high : high);
  levels.shift = shift_of(static_cast<float>(std::min(width, 1.0)), largest);
  levels.origin = low * levels.shift;
  levels.inverse = inverse_of(steps, high * levels.shift - levels.origin);
  levels.most = steps;
  // Steps of a narrow range would be rounded too coarsely where they are denormal numbers.
  levels.unit = width < 0x1p-70 ? 0x1p-80f : 1.0f;
  levels.step = static_cast<float>(width / levels.top / static_cast<double>(levels.unit));
  levels.low = low;
  levels.high = high;
  return levels;
}

/// 2^bits + zero + u, u of a draw of 16 bits; higher bits of it do not matter.
constexpr float place_draw(const Levels& levels, std::uint32_t draw) {
  const int shift = draw_shift(levels.bits);
  const std::uint32_t placed = shift < 0 ? draw >> -shift : draw << shift;
  return std::bit_cast<float>(levels.start | (placed & levels.draw_mask));
}

/// The field that v goes to; with_draw is of place_draw.
constexpr unsigned field_of(const Levels& levels, float v, float with_draw) {
  float p = (v * levels.shift - levels.origin) * levels.inverse;
  p = p < levels.least ? levels.least : p;
  p = p > levels.most ? levels.most : p;
  const auto sum = std::bit_cast<std::uint32_t>(p + with_draw);
  return (sum >> (23 - levels.bits)) & ((1u << levels.bits) - 1);
}

/// What a field stands for.
constexpr float value(const Levels& levels, unsigned field) {
  const auto q = static_cast<float>(field);
  if (!levels.range) return ((q - levels.zero) * levels.step) * levels.unit;
  const bool upper = 2 * field > levels.top;
  const float steps = q - (upper ? static_cast<float>(levels.top) : 0.0f);
  return (upper ? levels.high : levels.low) + (steps * levels.step) * levels.unit;
}

/// An l2 norm rounded up, so that no entry exceeds it; Inf where it is beyond float's range.
constexpr float rounded_up(double norm) {
  constexpr float kInfinity = std::bit_cast<float>(0x7f800000u);
  if (norm > static_cast<double>(std::bit_cast<float>(0x7f7fffffu))) return kInfinity;
  const auto rounded = static_cast<float>(norm);
  return static_cast<double>(rounded) < norm ? next_above(rounded) : rounded;
}

}  // namespace gossamer::compress::plain
