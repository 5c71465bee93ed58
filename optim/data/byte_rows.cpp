#include <cassert>
#include <memory>
#include <utility>

#include "dataset.h"

namespace gossamer::optim {
namespace {

/// The bytes stay bytes in memory, a quarter of the floats, and are converted when a batch is gathered.
class ByteRows final : public LabelledRows {
 public:
  ByteRows(Elements<std::uint8_t> values, std::size_t features, std::size_t classes,
           Elements<std::int32_t> labels, float factor, float offset)
      : LabelledRows(values.size() / features, features, classes, std::move(labels)),
        values_(std::move(values)),
        factor_(factor),
        offset_(offset) {}

  void gather(std::span<const std::uint32_t> rows, std::span<float> out) const override {
    assert(out.size() >= rows.size() * features());
    float* to = out.data();
    for (const std::uint32_t row : rows) {
      assert(row < this->rows());
      convert(values_.data() + std::size_t{row} * features(), features(), factor_, offset_, to);
      to += features();
    }
  }
  RowsLayout layout() const override {
    return {.kind = RowsLayout::Kind::bytes,
            .factor = factor_,
            .offset = offset_,
            .values = std::as_bytes(values_.all())};
  }

 private:
  /// Arguments by value, so that it becomes a vector loop.
  static void convert(const std::uint8_t* from, std::size_t n, float factor, float offset, float* to) {
    for (std::size_t k = 0; k < n; ++k) to[k] = static_cast<float>(from[k]) * factor + offset;
  }

  Elements<std::uint8_t> values_;
  float factor_, offset_;
};

}  // namespace

std::shared_ptr<const LabelledRows> make_byte_rows(Elements<std::uint8_t> values, std::size_t features,
                                                   std::size_t classes, Elements<std::int32_t> labels,
                                                   float factor, float offset) {
  return std::make_shared<ByteRows>(std::move(values), features, classes, std::move(labels), factor, offset);
}

}  // namespace gossamer::optim
