#pragma once
// The values of a sparse payload, in one of several forms.
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "half.h"
#include "wire.h"

namespace gossamer::compress {

/// Numbers on the wire.
enum class ValueForm : std::uint8_t {
  fp32 = 0,  ///< as they are
  fp16 = 1,  ///< as write_halves
  int8 = 2,  ///< fp32 M = the largest magnitude, then one byte q each for M·q/127, to nearest
  sign = 3,  ///< fp32 m = the mean magnitude, then one bit each for ±m
  /// fp32 l and h = the mean magnitudes of those at most and those above the mean one, then two bits each: +
  /// or −, h or l. Never further off than sign.
  two_bit = 4,
};
inline constexpr std::size_t kValueForms = 5;
std::span<const std::string_view> value_form_names();

constexpr std::size_t value_bytes(ValueForm form, std::size_t count) {
  switch (form) {
    case ValueForm::fp32:
      return count * sizeof(float);
    case ValueForm::fp16:
      return 2 + 2 * count;
    case ValueForm::int8:
      return sizeof(float) + count;
    case ValueForm::two_bit:
      return 2 * sizeof(float) + wire::ceil_div(count, 4);
    case ValueForm::sign:
      break;
  }
  return sizeof(float) + wire::ceil_div(count, 8);
}
/// The form as it stands in the byte of the index form (topk): in the three high bits, its own third bit,
/// which came later, as the lowest of them.
inline constexpr unsigned kFrontIndexForms = 1u << 5;
constexpr unsigned form_bits(ValueForm form) {
  const auto f = static_cast<unsigned>(form);
  return (f & 3u) << 6 | (f >> 2) << 5;
}
/// Writes value_bytes(form, values.size()). Values are finite.
void write_values(wire::Writer& out, ValueForm form, std::span<const float> values);

/// Reads what write_values wrote, one number after the other; throws PayloadError for what is not a number.
class ValueReader {
 public:
  ValueReader(std::span<const std::byte> in, ValueForm form, std::size_t count);
  float next() {
    if (at_ == filled_) fill();
    return piece_[at_++];
  }
  /// Throws where a bit past the last value is set. Call it after the last next().
  void finish() const;

 private:
  void fill();
  wire::Reader in_;
  ValueForm form_;
  std::size_t left_;
  std::size_t at_ = 0, filled_ = 0;
  float scale_ = 0, high_ = 0;
  std::optional<HalfReader> halves_;
  unsigned past_ = 0;  ///< bits past the last value
  std::array<float, 256> piece_;
};

}  // namespace gossamer::compress
