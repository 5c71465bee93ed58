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

}  // namespace

std::span<const std::string_view> value_form_names() {
  static constexpr std::array<std::string_view, kValueForms> kNames = {"fp32", "fp16", "int8", "sign"};
  return kNames;
}

std::size_t value_bytes(ValueForm form, std::size_t count) {
  switch (form) {
    case ValueForm::fp32:
      return count * sizeof(float);
    case ValueForm::fp16:
      return 2 + 2 * count;
    case ValueForm::int8:
      return sizeof(float) + count;
    case ValueForm::sign:
      break;
  }
  return sizeof(float) + wire::ceil_div(count, 8);
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
  }
}

ValueReader::ValueReader(std::span<const std::byte> in, ValueForm form, std::size_t count)
    : in_(in), form_(form), left_(count) {
  in_.expect_left(value_bytes(form, count));
  if (form == ValueForm::fp16) halves_.emplace(in_, count);
  if (form != ValueForm::int8 && form != ValueForm::sign) return;
  scale_ = in_.f32();
  if (std::signbit(scale_)) throw PayloadError("payload holds a negative scale");
}

void ValueReader::fill() {
  assert(left_ > 0);
  filled_ = std::min(left_, piece_.size());
  left_ -= filled_;
  at_ = 0;
  const auto values = std::span(piece_).first(filled_);
  switch (form_) {
    case ValueForm::fp32:
      for (float& v : values) v = in_.f32();
      return;
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
  }
}

void ValueReader::finish() const {
  if (past_ != 0) throw PayloadError("payload has sign bits set past its last entry");
}

}  // namespace gossamer::compress
