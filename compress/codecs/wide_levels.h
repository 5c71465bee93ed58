#pragma once
// qsgd with more levels than a byte holds: 128 to 65 535 on each side of zero. In plain C++ and in double
// precision, one entry after the other: such fine levels are for short vectors and for study.
#include <cstddef>
#include <cstdint>
#include <span>

#include "level_coding.h"
#include "level_payload.h"

namespace gossamer::compress {

/// The levels of one bucket: field q of 0 … 2s stands for (q − s)·norm/s, the outermost ±norm to the bit.
/// The field of v is ⌊v·s/norm + s + u⌋, u = (draw + ½)/2¹⁶: zeros stay zeros and ±norm itself.
struct WideLevels {
  explicit WideLevels(unsigned s, float norm)
      : zero(s), inverse(norm > 0 ? s / static_cast<double>(norm) : 0), step(static_cast<double>(norm) / s) {}
  unsigned zero;
  double inverse, step;

  std::uint32_t field(float v, std::uint32_t draw) const {
    const double u = (static_cast<double>(draw) + 0.5) * 0x1p-16;
    return static_cast<std::uint32_t>(static_cast<double>(v) * inverse + zero + u);
  }
  float value(std::uint32_t field) const {
    return static_cast<float>((static_cast<double>(field) - zero) * step);
  }
};

/// The part of encode_levels behind the front: writes the scales, and to the front of out the fields, packed
/// or coded; returns their bytes. residual may be null. Throws EncodeError before a residual is changed.
std::size_t encode_wide(const BucketRule& rule, FieldCoding coding, std::span<const float> x, float* residual,
                        const EntryBits& random, Workspace& workspace, std::byte* scales,
                        std::span<std::byte> out);
/// acc += weight · decoded; fields is all that stands behind the scales.
void decode_wide(const BucketRule& rule, FieldLayout layout, const std::byte* scales,
                 std::span<const std::byte> fields, float weight, std::span<float> acc, Threads* threads);

}  // namespace gossamer::compress
