#pragma once
// Quantised vectors as fields, one per byte: what the coders of levels are tested and timed on.
#include "vectors.h"

namespace gossamer::compress::test {

using FieldVector = std::vector<std::uint8_t>;

/// QSGD's rule with s levels a side and buckets of `bucket`: field s is zero. In double; levels above `most`
/// (of which the coders' alphabet is then made) must not occur.
inline FieldVector quantised(const Vector& v, double s, std::size_t bucket, bool l2, unsigned most,
                             std::uint64_t seed) {
  std::mt19937_64 random(seed);
  FieldVector fields(v.size());
  double norm = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (i % bucket == 0) {
      const auto part = std::span(v).subspan(i, std::min(bucket, v.size() - i));
      norm = l2 ? std::sqrt(squared(part)) : largest(part);
    }
    const double position = norm > 0 ? std::fabs(static_cast<double>(v[i])) / norm * s : 0;
    // A rounding error of a whole position must not turn into chance.
    const double draw = uniform(random);
    const int level = static_cast<int>(position + draw * (1 - 1e-9) + 1e-10);
    if (level > static_cast<int>(most)) throw std::logic_error("a level beyond the alphabet");
    fields[i] = static_cast<std::uint8_t>(static_cast<int>(most) + (v[i] < 0 ? -level : level));
  }
  return fields;
}

/// Bits per field of the best model without memory.
inline double entropy(const FieldVector& fields) {
  std::vector<double> counts(256, 0.0);
  for (const std::uint8_t field : fields) ++counts[field];
  double bits = 0;
  for (const double count : counts) {
    const double p = count / static_cast<double>(fields.size());
    if (count > 0) bits -= p * std::log2(p);
  }
  return bits;
}

}  // namespace gossamer::compress::test
