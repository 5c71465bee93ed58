#pragma once
// Vectors as 16-bit floats (IEEE binary16) with one shared exponent: 2 bytes k, then n halves that stand for
// half · 2^k.
#include <cstdint>
#include <span>

#include "float_kernels.h"
#include "wire.h"

namespace gossamer::compress {

/// k of a vector: 0 where its largest magnitude is 0 or lies in the normal range of a half; else what brings
/// it into [2¹⁴, 2¹⁵).
int half_exponent(float largest);
/// Takes the 2 bytes; throws PayloadError for an exponent that half_exponent never gives.
FloatScale read_half_scale(wire::Reader& in);
/// Throws the PayloadError of values that are not finite.
[[noreturn]] void refuse_values();

/// Writes 2 + 2n bytes. Entries are finite.
void write_halves(wire::Writer& out, std::span<const float> x);

/// Reads what write_halves wrote; throws PayloadError for an exponent that is none, NaN, Inf, and numbers
/// beyond float's range.
class HalfReader {
 public:
  /// Takes the exponent and all n halves from the front of in.
  HalfReader(wire::Reader& in, std::size_t n);
  /// The next values.size() numbers.
  void next(std::span<float> values);

 private:
  FloatScale scale_;
  wire::Reader halves_;
};

}  // namespace gossamer::compress
