#include "half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace gossamer::compress {
namespace {

constexpr float kHalfMax = 65504;        ///< largest finite half
constexpr float kHalfNormal = 0x1p-14f;  ///< smallest normal half
constexpr int kExponentMin = -163, kExponentMax = 113;

}  // namespace

int half_exponent(float largest) {
  if (largest == 0 || (largest >= kHalfNormal && largest <= kHalfMax)) return 0;
  return std::ilogb(largest) - 14;
}

FloatScale read_half_scale(wire::Reader& in) {
  std::int16_t exponent;
  std::memcpy(&exponent, in.take(sizeof exponent).data(), sizeof exponent);
  if (exponent < kExponentMin || exponent > kExponentMax)
    throw PayloadError("payload claims a shared exponent of " + std::to_string(exponent));
  return FloatScale(exponent);
}

void refuse_values() { throw PayloadError("payload holds NaN, Inf or a number beyond float's range"); }

void write_halves(wire::Writer& out, std::span<const float> x) {
  const int exponent = half_exponent(wire::largest_magnitude(x));
  const auto stored = static_cast<std::int16_t>(exponent);
  out.bytes(&stored, sizeof stored);
  std::byte* const halves = out.skip(2 * x.size());
  (void)send_floats(FloatFormat::fp16, FloatScale(exponent), {x.data(), nullptr, x.size()}, halves);
}

HalfReader::HalfReader(wire::Reader& in, std::size_t n)
    : scale_(read_half_scale(in)), halves_(in.take(2 * n)) {}

void HalfReader::next(std::span<float> values) {
  // −0 + x is x to the bit.
  std::fill(values.begin(), values.end(), -0.0f);
  const std::byte* const halves = halves_.take(2 * values.size()).data();
  if (!add_floats(FloatFormat::fp16, scale_, halves, 1, values.data(), values.size())) refuse_values();
}

}  // namespace gossamer::compress
