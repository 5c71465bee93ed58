#pragma once
// How many levels qsgd has, which may follow from the vector.
#include <algorithm>
#include <cmath>
#include <string>

#include "level_payload.h"

namespace gossamer::compress {

/// Levels on each side of zero: a number, or ⌈√d⌉ of buckets of d entries. A vector shorter than a bucket is
/// one of its own length; a shorter bucket at a vector's end has the levels of the others.
struct LevelCount {
  unsigned fixed = 7;  ///< 0: ⌈√d⌉

  unsigned of(std::size_t bucket, std::size_t n) const {
    if (fixed != 0) return fixed;
    const auto d = static_cast<double>(std::max<std::size_t>(1, std::min(bucket, n)));
    return static_cast<unsigned>(std::ceil(std::sqrt(d)));
  }
  /// Of a vector of any length.
  unsigned most(std::size_t bucket) const { return of(bucket, bucket); }
  std::string spec() const {
    if (fixed == 0) return "levels=sqrt";
    if (is_short_form(fixed)) return "bits=" + std::to_string(rounding_bits(fixed));
    return "levels=" + std::to_string(fixed);
  }
  /// The rule of a vector of n entries, given what else it says.
  LevelRule rule(LevelRule rest, std::size_t n) const {
    rest.buckets.a_side = of(rest.buckets.bucket, n);
    if (rest.buckets.a_side <= kLevelsMax) rest.buckets.bits = rounding_bits(rest.buckets.a_side);
    return rest;
  }
};

/// bits=4, or levels.
LevelCount levels_parameter(Parameters& parameters);

}  // namespace gossamer::compress
