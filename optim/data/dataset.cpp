#include "dataset.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "random.h"
#include "scratch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gossamer::optim {
namespace {

constexpr std::size_t kHashFloats = 1U << 16;  // gathered and hashed at a time: stays in the cache

class FloatRows final : public LabelledRows {
 public:
  FloatRows(Elements<float> values, std::size_t features, std::size_t classes, Elements<std::int32_t> labels)
      : LabelledRows(values.size() / features, features, classes, std::move(labels)),
        values_(std::move(values)) {}

  void gather(std::span<const std::uint32_t> rows, std::span<float> out) const override {
    assert(out.size() >= rows.size() * features());
    float* to = out.data();
    for (const std::uint32_t row : rows) {
      assert(row < this->rows());
      to = std::copy_n(values_.data() + std::size_t{row} * features(), features(), to);
    }
  }
  RowsLayout layout() const override { return {.values = std::as_bytes(values_.all())}; }

 private:
  Elements<float> values_;
};

}  // namespace

void check_rows(std::size_t rows) {
  if (rows > std::numeric_limits<std::uint32_t>::max())
    throw OptimError("data: found " + std::to_string(rows) + " rows, expected fewer than 2^32");
}

std::vector<std::uint32_t> draw_rows(std::size_t n, std::size_t count, std::uint64_t seed, Drawn use) {
  check_rows(n);
  std::vector<std::uint32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0U);
  if (count >= n) return rows;
  const std::uint64_t key = make_key(seed, Use::rows, static_cast<std::uint64_t>(use));
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    const std::uint64_t x = bits(key, a), y = bits(key, b);
    return x != y ? x < y : a < b;
  };
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(rows.begin(), end, rows.end(), earlier);
  rows.erase(end, rows.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

LabelledRows::LabelledRows(std::size_t rows, std::size_t features, std::size_t classes,
                           Elements<std::int32_t> labels)
    : rows_(rows), features_(features), classes_(classes), labels_(std::move(labels)) {
  assert(labels_.size() == (classes_ == 0 ? 0 : rows_));
  check_rows(rows_);
}

std::int32_t LabelledRows::label(std::size_t row) const {
  assert(row < labels_.size());
  return labels_.all()[row];
}

void LabelledRows::knows_hash(std::uint64_t hash) const {
  std::call_once(hashed_, [this, hash] { hash_ = hash; });
}

std::uint64_t LabelledRows::hash() const {
  std::call_once(hashed_, [this] { hash_ = compute_hash(); });
  return hash_;
}

std::uint64_t LabelledRows::compute_hash() const {
  XXH3_state_t state;  // large, but on the stack it is aligned as it needs
  XXH3_64bits_reset(&state);
  const std::uint64_t shape[3] = {rows_, features_, classes_};
  XXH3_64bits_update(&state, shape, sizeof shape);
  XXH3_64bits_update(&state, labels_.data(), labels_.all().size_bytes());
  const std::size_t block = std::max<std::size_t>(1, kHashFloats / features_);
  Scratch<float> values;
  std::vector<std::uint32_t> numbers;
  for (std::size_t first = 0; first < rows_; first += block) {
    numbers.resize(std::min(block, rows_ - first));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
    const std::span<float> part = values.need(numbers.size() * features_);
    gather(numbers, part);
    XXH3_64bits_update(&state, part.data(), part.size_bytes());
  }
  return XXH3_64bits_digest(&state);
}

std::shared_ptr<const LabelledRows> make_float_rows(Elements<float> values, std::size_t features,
                                                    std::size_t classes, Elements<std::int32_t> labels) {
  return std::make_shared<FloatRows>(std::move(values), features, classes, std::move(labels));
}

}  // namespace gossamer::optim
