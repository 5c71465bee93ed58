#include "sparse_values.h"

#include <algorithm>
#include <cmath>

#include "sums.h"

namespace gossamer::compress {
namespace {

constexpr double kTop = 127;

void write_int8(wire::Writer& out, std::span<const float> values) {
  const float largest = wire::largest_magnitude(values);
  out.f32(largest);
  const double factor = largest > 0 ? kTop / largest : 0;
  for (const float v : values) {
    const double level = std::floor(static_cast<double>(v) * factor + 0.5);
    out.u8(static_cast<std::uint8_t>(static_cast<std::int8_t>(level)));
  }
}

void write_mean_signs(wire::Writer& out, std::span<const float> values) {
  const double sum = sum_in_lanes(values, [](double v) { return std::fabs(v); });
  out.f32(values.empty() ? 0.0f : static_cast<float>(sum / static_cast<double>(values.size())));
  wire::write_signs(out, values);
}

/// Group means over values whose magnitude is, and is not, above `middle`.
struct Means {
  Means(std::span<const float> values, double middle) {
    double sums[2] = {0, 0};
    for (const float v : values) {
      const double size = std::fabs(static_cast<double>(v));
      sums[size > middle] += size;
      above += size > middle;
    }
    if (above < values.size()) low = static_cast<float>(sums[0] / static_cast<double>(values.size() - above));
    high = above > 0 ? static_cast<float>(sums[1] / static_cast<double>(above)) : low;
  }
  std::size_t above = 0;
  float low = 0, high = 0;
};

void write_two_bits(wire::Writer& out, std::span<const float> values) {
  const double sum = sum_in_lanes(values, [](double v) { return std::fabs(v); });
  const double middle = values.empty() ? 0 : sum / static_cast<double>(values.size());
  const Means means(values, middle);
  out.f32(means.low);
  out.f32(means.high);
  unsigned byte = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool positive = !std::signbit(values[i]),
               large = std::fabs(static_cast<double>(values[i])) > middle;
    byte |= (static_cast<unsigned>(positive) | static_cast<unsigned>(large) << 1) << 2 * (i % 4);
    if (i % 4 != 3 && i + 1 != values.size()) continue;
    out.u8(static_cast<std::uint8_t>(byte));
    byte = 0;
  }
}

float magnitude(wire::Reader& in) {
  const float m = in.f32();
  if (std::signbit(m)) throw PayloadError("payload holds a negative scale");
  return m;
}

}  // namespace

std::span<const std::string_view> value_form_names() {
  static constexpr std::array<std::string_view, kValueForms> kNames = {"fp32", "fp16", "int8", "sign",
                                                                       "two_bit"};
  return kNames;
}

void write_values(wire::Writer& out, ValueForm form, std::span<const float> values) {
  switch (form) {
    case ValueForm::fp32:
      return out.bytes(values.data(), values.size_bytes());
    case ValueForm::fp16:
      return write_halves(out, values);
    case ValueForm::int8:
      return write_int8(out, values);
    case ValueForm::sign:
      return write_mean_signs(out, values);
    case ValueForm::two_bit:
      return write_two_bits(out, values);
  }
}

ValueReader::ValueReader(std::span<const std::byte> in, ValueForm form, std::size_t count)
    : in_(in), form_(form), left_(count) {
  in_.expect_left(value_bytes(form, count));
  if (form == ValueForm::fp16) halves_.emplace(in_, count);
  if (form != ValueForm::int8 && form != ValueForm::sign && form != ValueForm::two_bit) return;
  scale_ = magnitude(in_);
  if (form == ValueForm::two_bit) high_ = magnitude(in_);
}

void ValueReader::fill() {
  assert(left_ > 0);
  filled_ = std::min(left_, piece_.size());
  left_ -= filled_;
  at_ = 0;
  const auto values = std::span(piece_).first(filled_);
  switch (form_) {
    case ValueForm::fp32:
      return in_.f32s(values);
    case ValueForm::fp16:
      return halves_->next(values);
    case ValueForm::int8:
      for (float& v : values) {
        const auto q = static_cast<std::int8_t>(in_.u8());
        if (q == -128) throw PayloadError("payload holds a level beyond the highest");
        v = static_cast<float>(static_cast<double>(scale_) * q / kTop);
      }
      return;
    case ValueForm::sign:
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % 8 == 0) past_ = in_.u8();
        values[i] = (past_ & 1u) != 0 ? scale_ : -scale_;
        past_ >>= 1;
      }
      return;
    case ValueForm::two_bit:
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % 4 == 0) past_ = in_.u8();
        const float size = (past_ & 2u) != 0 ? high_ : scale_;
        values[i] = (past_ & 1u) != 0 ? size : -size;
        past_ >>= 2;
      }
      return;
  }
}

void ValueReader::finish() const {
  if (past_ != 0) throw PayloadError("payload has bits set past its last entry");
}

}  // namespace gossamer::compress
