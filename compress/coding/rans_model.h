#pragma once
// The arithmetic of rans.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "prefix_code.h"

namespace gossamer::compress {

inline constexpr unsigned kRansBits = 12;
inline constexpr std::uint32_t kRansTotal = 1u << kRansBits;
inline constexpr std::size_t kRansStates = 4;
/// A state is at least this between fields; it starts so and, read back, must end so.
inline constexpr std::uint32_t kRansLeast = 1u << 16;

/// Frequencies of the fields 0 … top in 4096ths: at least 1 for each that occurs, 0 for the others.
struct RansModel {
  std::array<std::uint16_t, 256> frequency;
};
/// counts are not all 0.
constexpr RansModel rans_model(const FieldCounts& counts, LevelRange range) {
  std::uint64_t total = 0;
  for (unsigned field = 0; field <= range.top; ++field) total += counts[field];
  RansModel model{};
  std::uint32_t given = 0;
  unsigned largest = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    if (counts[field] == 0) continue;
    const std::uint64_t share = (std::uint64_t{counts[field]} * kRansTotal + total / 2) / total;
    model.frequency[field] = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, share));
    given += model.frequency[field];
    if (counts[field] > counts[largest]) largest = field;
  }
  // What rounding leaves over goes to the most frequent; what it took too much comes from the largest.
  for (; given > kRansTotal; --given) --*std::max_element(model.frequency.begin(), model.frequency.end());
  model.frequency[largest] = static_cast<std::uint16_t>(model.frequency[largest] + (kRansTotal - given));
  return model;
}

constexpr std::size_t model_bytes(const RansModel& model, LevelRange range) {
  std::size_t bits = 0;
  for (unsigned field = 0; field <= range.top; ++field)
    bits += omega(model.frequency[field] + std::uint64_t{1}).length;
  return (bits + 7) / 8;
}

/// log₂ in 1/65536, rounded down: the same on every machine. number ≥ 1 and under 2³².
constexpr std::uint64_t log2_fixed(std::uint32_t number) {
  const auto whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  std::uint64_t mantissa = std::uint64_t{number} << (31 - whole);  // in [2³¹, 2³²)
  std::uint64_t log = whole;
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = (mantissa * mantissa) >> 31;
    const std::uint64_t doubled = mantissa >> 32;
    log = log << 1 | doubled;
    mantissa >>= doubled;
  }
  return log;
}

/// Bytes under which write_rans never stays: the fields' bits in this model without the states, and the
/// model.
constexpr std::uint64_t rans_bytes_least(const RansModel& model, const FieldCounts& counts,
                                         LevelRange range) {
  constexpr std::uint64_t kWhole = std::uint64_t{kRansBits} << 16;
  std::uint64_t bits = 0;  // in 1/65536
  for (unsigned field = 0; field <= range.top; ++field) {
    if (counts[field] == 0) continue;
    const std::uint64_t rounded_up = log2_fixed(model.frequency[field]) + 1;
    bits += counts[field] * (kWhole - std::min(rounded_up, kWhole));
  }
  return (bits >> 19) + model_bytes(model, range);
}

constexpr std::size_t rans_bytes_most(std::size_t fields, LevelRange range) {
  // No field takes more than 12 bits and the little that a state's rounding adds; no frequency more than 20.
  return fields + fields * 5 / 8 + 3 * (std::size_t{range.top} + 1) + 4 * kRansStates + 16;
}

/// How one field moves a state x: to x / f·4096 + start + x mod f, by a product in place of the division.
struct RansStep {
  std::uint64_t reciprocal;  ///< ⌈2⁶⁴/f⌉, which divides any x < 2³² exactly; for f = 1 it gives x − 1
  std::uint32_t most;        ///< from here on the state must first send 16 bits
  std::uint32_t bias;        ///< start, and what the off-by-one of f = 1 lacks
  std::uint32_t rest;        ///< 4096 − f

  constexpr std::uint32_t moved(std::uint32_t x) const {
    // reciprocal·x >> 64 from two products of 32 bits each.
    const std::uint64_t low = (reciprocal & 0xffffffffu) * x;
    const auto quotient = static_cast<std::uint32_t>(((reciprocal >> 32) * x + (low >> 32)) >> 32);
    return x + bias + quotient * rest;
  }
};

/// Of a field with frequency f ≥ 1 behind others of `start` together.
constexpr RansStep rans_step(std::uint32_t f, std::uint32_t start) {
  RansStep step{};
  step.reciprocal = f == 1 ? ~std::uint64_t{0} : ~std::uint64_t{0} / f + 1;
  step.bias = f == 1 ? start + kRansTotal - 1 : start;
  step.rest = kRansTotal - f;
  // f = 4096 codes in no bits and never sends; its limit would be 2³².
  step.most = f == kRansTotal ? ~std::uint32_t{0} : f << (32 - kRansBits);
  return step;
}

/// For a value of a state's low 12 bits: the field, its frequency less one from bit 8, and the value's place
/// in that field's range from bit 20.
constexpr std::uint32_t rans_slot(unsigned field, std::uint32_t f, std::uint32_t place) {
  return field | (f - 1) << 8 | place << 20;
}
/// One field off the state.
constexpr std::uint8_t step_back(std::uint32_t& x, std::uint32_t slot) {
  x = (((slot >> 8) & (kRansTotal - 1)) + 1) * (x >> kRansBits) + (slot >> 20);
  return static_cast<std::uint8_t>(slot);
}

}  // namespace gossamer::compress
