#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "dataset.h"

namespace gossamer::optim {
namespace {

/// Rows stay as narrow as the file's; they get their features when a batch is gathered.
class CategoryRows final : public LabelledRows {
 public:
  CategoryRows(Elements<float> values, Elements<std::uint32_t> widths, std::size_t features,
               std::size_t classes, Elements<std::int32_t> labels)
      : LabelledRows(values.size() / widths.size(), features, classes, std::move(labels)),
        values_(std::move(values)),
        widths_(std::move(widths)) {}

  void gather(std::span<const std::uint32_t> rows, std::span<float> out) const override {
    assert(out.size() >= rows.size() * features());
    float* to = out.data();
    for (const std::uint32_t row : rows) {
      assert(row < this->rows());
      const float* value = values_.data() + std::size_t{row} * widths_.size();
      for (const std::uint32_t width : widths_.all()) to = put(*value++, width, to);
    }
  }
  RowsLayout layout() const override {
    return {.kind = RowsLayout::Kind::categories,
            .widths = widths_.all(),
            .values = std::as_bytes(values_.all())};
  }

 private:
  static float* put(float value, std::uint32_t width, float* to) {
    if (width == 0) {
      *to = value;
      return to + 1;
    }
    std::fill_n(to, width, 0.0f);
    assert(value < static_cast<float>(width));
    if (value >= 0) to[static_cast<std::size_t>(value)] = 1;
    return to + width;
  }

  Elements<float> values_;
  Elements<std::uint32_t> widths_;
};

}  // namespace

std::shared_ptr<const LabelledRows> make_category_rows(Elements<float> values, Elements<std::uint32_t> widths,
                                                       std::size_t classes, Elements<std::int32_t> labels) {
  std::size_t features = 0;
  for (const std::uint32_t width : widths.all()) features += std::max(width, 1U);
  return std::make_shared<CategoryRows>(std::move(values), std::move(widths), features, classes,
                                        std::move(labels));
}

}  // namespace gossamer::optim
