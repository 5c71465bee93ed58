#pragma once
// Quantised levels as a string of prefix codes, written by tables of codes and read several levels at a time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "elias.h"

namespace gossamer::compress {

/// Fields 0 … top, of which field l + zero stands for level l: as many levels below 0 as above, or one more.
/// top is 2·zero or 2·zero − 1; fields stand in bytes where it is at most 255.
struct LevelRange {
  unsigned zero, top;
};
constexpr LevelRange levels_each_side(unsigned s) { return {s, 2 * s}; }
inline constexpr unsigned kLevelsMax = 127;  ///< each side, of fields in bytes

/// QSGD's dense code (Alistarh et al. 2017, section 3.2 and appendix A.3): omega of |level| + 1, and a sign
/// bit (1 = negative) where the level is not 0.
constexpr BitCode dense_code(int level) {
  const unsigned size = static_cast<unsigned>(level < 0 ? -level : level);
  BitCode code = omega(size + 1);
  if (level != 0) code.bits |= static_cast<std::uint64_t>(level < 0) << code.length++;
  return code;
}
/// What stands behind the gap in QSGD's sparse code: a sign bit, then omega of |level|. level ≠ 0.
constexpr BitCode sparse_code(int level) {
  const unsigned size = static_cast<unsigned>(level < 0 ? -level : level);
  const BitCode code = omega(size);
  return {code.bits << 1 | static_cast<std::uint64_t>(level < 0), code.length + 1};
}
/// 0, −1, 1, −2, 2 … as 0, 1, 2, 3, 4 …: q zeros, a one, r low bits (Golomb 1966; Rice 1979).
constexpr unsigned zigzag(int level) { return static_cast<unsigned>(level < 0 ? -2 * level - 1 : 2 * level); }
constexpr BitCode rice_code(int level, unsigned r) {
  const unsigned folded = zigzag(level), high = folded >> r;
  return {(std::uint64_t{1} | (folded & low_bits(r)) << 1) << high, high + 1 + r};
}
/// The largest r that is of use, and the least that keeps every code of these levels within 56 bits.
inline constexpr unsigned kLevelRiceMax = 7;
constexpr unsigned least_level_rice(LevelRange range) {
  unsigned r = 0;
  while ((range.top >> r) + 1 + r > 56) ++r;
  return r;
}

/// A long slice is cut into kStrings parts of equally many fields, the last with what is left over, each
/// coded as a string of its own. These are written and read in turn, so that none waits for itself.
inline constexpr std::size_t kStrings = 4;
inline constexpr std::size_t kStringsFrom = 4096;
/// Part k; strings is 1 or kStrings.
template <class T>
std::span<T> part_of(std::span<T> fields, std::size_t strings, std::size_t k) {
  const std::size_t part = fields.size() / strings;
  return fields.subspan(k * part, k + 1 < strings ? part : fields.size() - k * part);
}

/// How many there are of each field; fields past the top are 0.
using FieldCounts = std::array<std::uint32_t, 256>;
FieldCounts count_fields(std::span<const std::uint8_t> fields);
struct LevelShape {
  std::size_t levels = 0;  ///< that are not 0
  bool small = false;      ///< all of at most 7
};
LevelShape shape_of(std::span<const std::uint8_t> fields, LevelRange range);

/// Bits of the gaps of the sparse form as one string.
std::uint64_t gap_bits(std::span<const std::uint8_t> fields, LevelRange range);

/// For each string where it may be written: spans apart from each other, with room for 8 bytes behind what it
/// takes. After that, the bytes that it took.
struct StringPlaces {
  std::size_t strings = 1;
  std::array<std::byte*, kStrings> at{};
  std::array<std::size_t, kStrings> bytes{};
};
void write_dense(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range);
void write_rice(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range, unsigned r);
/// For each level that is not 0: omega of its distance to the one before, then sparse_code. Zeros at the end
/// are the distance to one more level that is not sent.
void write_sparse(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range);

/// Strings behind each other: string k ends where the next begins.
struct StringEnds {
  std::span<const std::byte> in;
  std::size_t strings = 1;
  std::array<std::size_t, kStrings> end{};
};
/// Each reads all fields; throws PayloadError for a level out of range, and where a string does not end with
/// its last one.
void read_dense(const StringEnds& in, LevelRange range, std::span<std::uint8_t> fields);
void read_rice(const StringEnds& in, LevelRange range, unsigned r, std::span<std::uint8_t> fields);
void read_sparse(const StringEnds& in, LevelRange range, std::span<std::uint8_t> fields);

}  // namespace gossamer::compress
