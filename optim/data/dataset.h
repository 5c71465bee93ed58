#pragma once
// What the data formats share; each is one file, with its descriptor at the end.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

/// Numbers that do not change, of a vector or of memory that is kept for them.
template <class T>
class Elements {
 public:
  Elements(std::vector<T> all) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(all));
    all_ = *owner;
    owner_ = std::move(owner);
  }
  Elements(std::shared_ptr<const void> owner, std::span<const T> all) : owner_(std::move(owner)), all_(all) {}
  const T* data() const { return all_.data(); }
  std::size_t size() const { return all_.size(); }
  std::span<const T> all() const { return all_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const T> all_;
};

/// How the values of rows lie in memory.
struct RowsLayout {
  enum class Kind : std::uint32_t { floats, bytes, categories };
  Kind kind = Kind::floats;
  float factor = 1, offset = 0;             ///< bytes: value = byte·factor + offset
  std::span<const std::uint32_t> widths{};  ///< categories: as make_category_rows has them
  std::span<const std::byte> values{};
};

/// Labels and the hash; a format adds gather(). The hash is taken over the gathered values (XXH3), so that
/// equal data from different formats is equal; it is computed when first asked for.
class LabelledRows : public Dataset {
 public:
  LabelledRows(std::size_t rows, std::size_t features, std::size_t classes, Elements<std::int32_t> labels);
  std::size_t rows() const final { return rows_; }
  std::size_t features() const final { return features_; }
  std::size_t classes() const final { return classes_; }
  std::int32_t label(std::size_t row) const final;
  std::uint64_t hash() const final;
  std::span<const std::int32_t> labels() const { return labels_.all(); }
  virtual RowsLayout layout() const = 0;
  /// What hash() gives, where it is known.
  void knows_hash(std::uint64_t hash) const;

 private:
  std::uint64_t compute_hash() const;
  std::size_t rows_, features_, classes_;
  Elements<std::int32_t> labels_;
  mutable std::once_flag hashed_;
  mutable std::uint64_t hash_ = 0;
};

/// Rows of floats as they are.
std::shared_ptr<const LabelledRows> make_float_rows(Elements<float> values, std::size_t features,
                                                    std::size_t classes, Elements<std::int32_t> labels);
/// Rows of bytes, of which each is a feature: byte·factor + offset.
std::shared_ptr<const LabelledRows> make_byte_rows(Elements<std::uint8_t> values, std::size_t features,
                                                   std::size_t classes, Elements<std::int32_t> labels,
                                                   float factor, float offset);

/// Rows of numbers and categories: `widths` has 0 for a column of numbers, whose values are features as they
/// are, and for one of categories how many features it becomes. A value there is a category below that, which
/// sets its feature to 1, or negative, which sets none.
std::shared_ptr<const LabelledRows> make_category_rows(Elements<float> values, Elements<std::uint32_t> widths,
                                                       std::size_t classes, Elements<std::int32_t> labels);

struct DataFormat {
  NamedHelp row;
  /// Its path is not empty where the format needs one; mean and scale are finite, and scale is not 0.
  Data (*load)(const DataSpec& spec);
  DataFormatTraits traits{};
};
extern const DataFormat kIdx, kCsv, kSynthetic;

inline constexpr std::size_t kEvaluationRows = 1024;
/// The whole set in order, in batches of at most kEvaluationRows that hold during the call.
void for_each_block(const Dataset& data, const std::function<void(const Batch&)>& use);

/// Throws OptimError where row numbers would not fit into 32 bits.
void check_rows(std::size_t rows);
/// What rows are drawn for; each draws by itself.
enum class Drawn { limited, held_out };
/// `count` of the rows 0 … n − 1 (n < 2^32), ascending: those of the smallest hashes of (seed, use, row), so
/// that more hold fewer. All of them where count is not below n.
std::vector<std::uint32_t> draw_rows(std::size_t n, std::size_t count, std::uint64_t seed, Drawn use);
/// The rows that a `limit` leaves of n; 0 = all.
inline std::vector<std::uint32_t> limited(std::size_t n, const DataSpec& spec) {
  return draw_rows(n, spec.limit == 0 ? n : spec.limit, spec.seed, Drawn::limited);
}

}  // namespace gossamer::optim
