#pragma once
// Vectors as 16-bit floats (IEEE binary16) with one shared exponent: 2 bytes k, then n halves that stand for
// half · 2^k.
#include <cstdint>
#include <span>

#include "wire.h"

namespace gossamer::compress {

/// Writes 2 + 2n bytes. k is 0 where the largest magnitude lies in the normal range of a half; else it brings
/// it into [2¹⁴, 2¹⁵). Entries are finite.
void write_halves(wire::Writer& out, std::span<const float> x);

/// Reads what write_halves wrote; throws PayloadError for an exponent that is none, NaN, Inf, and numbers
/// beyond float's range.
class HalfReader {
 public:
  /// Takes the exponent and all n halves from the front of in.
  HalfReader(wire::Reader& in, std::size_t n);
  /// The next values.size() numbers, at most 1024.
  void next(std::span<float> values);

 private:
  float first_, second_;  ///< 2^k in two factors, since it may lie outside float's range
  wire::Reader halves_;
};

}  // namespace gossamer::compress
