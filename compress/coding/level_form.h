#pragma once
#include <cstddef>
#include <cstdint>

namespace gossamer::compress {

/// Numbers on the wire. Each slice starts with its form.
enum class LevelForm : std::uint8_t {
  packed = 0,       ///< fields of the bits that the top one takes; where that is 2 five fields to a byte
  elias = 1,        ///< QSGD's sparse code: omega of the gap, a sign bit, omega of the level
  elias_dense = 2,  ///< QSGD's dense code: omega of |level| + 1, a sign bit where it is not 0
  rice = 3,         ///< u8 r, Rice code of the zigzag-folded level
  rans = 4,         ///< range asymmetric numeral systems, a model for each slice
};
inline constexpr std::size_t kLevelForms = 5;

}  // namespace gossamer::compress
