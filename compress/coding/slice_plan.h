#pragma once
// How a slice of levels may be written: each form's strings, and what they take.
#include <algorithm>
#include <bit>

#include "level_form.h"
#include "prefix_code.h"
#include "wire.h"

namespace gossamer::compress {

inline constexpr std::size_t kFieldsPerByte = 5;  ///< of three values: 3⁵ = 243 of a byte's 256 values

constexpr std::size_t packed_bytes(std::size_t count, LevelRange range) {
  if (range.top == 2) return wire::ceil_div(count, kFieldsPerByte);
  return wire::ceil_div(count * static_cast<std::size_t>(std::bit_width(range.top)), 8);
}

/// The form's byte has this bit too where its codes stand in kStrings strings: u32 bytes of all but the last,
/// then the strings.
inline constexpr unsigned kInStrings = 0x80;
inline constexpr std::size_t kStringsFront = (kStrings - 1) * sizeof(std::uint32_t);

/// How many there are of each field in each part of a slice and in all.
struct SliceCounts {
  std::size_t strings = 1;
  std::array<FieldCounts, kStrings> part{};
  FieldCounts all{};
};
constexpr std::size_t strings_of(std::size_t count) { return count >= kStringsFrom ? kStrings : 1; }
/// Where levels are few their gaps are long and found one by one, in one string.
constexpr std::size_t sparse_strings(std::size_t count, std::size_t levels) {
  return levels >= count / 8 ? strings_of(count) : 1;
}

/// Bits of all fields under a code as one string.
template <class Code>
constexpr std::uint64_t bits_of(const FieldCounts& counts, LevelRange range, const Code& code) {
  std::uint64_t bits = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    if (counts[field] != 0)
      bits +=
          std::uint64_t{counts[field]} * code(static_cast<int>(field) - static_cast<int>(range.zero)).length;
  }
  return bits;
}
constexpr std::uint64_t dense_bits(const FieldCounts& counts, LevelRange range) {
  return bits_of(counts, range, [](int level) { return dense_code(level); });
}
constexpr std::uint64_t rice_bits(const FieldCounts& counts, LevelRange range, unsigned r) {
  return bits_of(counts, range, [r](int level) { return rice_code(level, r); });
}
/// Without the gaps, of which each takes at least a bit.
constexpr std::uint64_t sparse_bits_but_gaps(const FieldCounts& counts, LevelRange range) {
  return bits_of(counts, range, [](int level) { return level == 0 ? BitCode{} : sparse_code(level); });
}

constexpr unsigned best_rice(const FieldCounts& counts, LevelRange range) {
  unsigned best = least_level_rice(range);
  std::uint64_t least = rice_bits(counts, range, best);
  for (unsigned r = best + 1; r <= kLevelRiceMax; ++r) {
    const std::uint64_t bits = rice_bits(counts, range, r);
    if (bits < least) {
      best = r;
      least = bits;
    }
  }
  return best;
}

/// A form in strings, and the most bytes that each of these may take.
struct StringsPlan {
  LevelForm form = LevelForm::packed;
  unsigned r = 0;
  std::size_t strings = 1;
  std::array<std::size_t, kStrings> most{};

  constexpr std::size_t front() const {
    return (form == LevelForm::rice ? 1 : 0) + (strings > 1 ? kStringsFront : 0);
  }
  constexpr std::size_t bytes() const {
    std::size_t sum = front();
    for (const std::size_t part : most) sum += part;
    return sum;
  }
};

// What each form takes exactly.
constexpr StringsPlan packed_plan(std::size_t count, LevelRange range) {
  StringsPlan plan;
  plan.most[0] = packed_bytes(count, range);
  return plan;
}
constexpr StringsPlan dense_plan(const SliceCounts& counts, LevelRange range) {
  StringsPlan plan{LevelForm::elias_dense, 0, counts.strings, {}};
  for (std::size_t k = 0; k < plan.strings; ++k)
    plan.most[k] = wire::ceil_div(dense_bits(counts.part[k], range), 8);
  return plan;
}
constexpr StringsPlan rice_plan(const SliceCounts& counts, LevelRange range) {
  StringsPlan plan{LevelForm::rice, best_rice(counts.all, range), counts.strings, {}};
  for (std::size_t k = 0; k < plan.strings; ++k)
    plan.most[k] = wire::ceil_div(rice_bits(counts.part[k], range, plan.r), 8);
  return plan;
}
/// gaps(strings, k): bits of the gaps of part k.
template <class Gaps>
constexpr StringsPlan sparse_plan(const SliceCounts& counts, std::size_t count, LevelRange range,
                                  const Gaps& gaps) {
  StringsPlan plan{LevelForm::elias, 0, sparse_strings(count, count - counts.all[range.zero]), {}};
  for (std::size_t k = 0; k < plan.strings; ++k) {
    const FieldCounts& part = plan.strings == 1 ? counts.all : counts.part[k];
    plan.most[k] = wire::ceil_div(sparse_bits_but_gaps(part, range) + gaps(plan.strings, k), 8);
  }
  return plan;
}

/// The smallest but for rans; of equally small ones the first. Gaps are counted only where they may matter.
template <class Gaps>
constexpr StringsPlan best_prefix(const SliceCounts& counts, std::size_t count, LevelRange range,
                                  const Gaps& gaps) {
  const StringsPlan dense = dense_plan(counts, range), rice = rice_plan(counts, range);
  StringsPlan best = packed_plan(count, range);
  const std::size_t least =
      wire::ceil_div(sparse_bits_but_gaps(counts.all, range) + (count - counts.all[range.zero]), 8);
  if (least < best.bytes() && least <= dense.bytes() && least <= rice.bytes()) {
    const StringsPlan sparse = sparse_plan(counts, count, range, gaps);
    if (sparse.bytes() < best.bytes()) best = sparse;
  }
  if (dense.bytes() < best.bytes()) best = dense;
  if (rice.bytes() < best.bytes()) best = rice;
  return best;
}

}  // namespace gossamer::compress
