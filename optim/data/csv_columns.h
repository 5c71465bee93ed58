#pragma once
// What the feature columns of a CSV file hold: numbers, or text that stands for one of several categories.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "csv_reader.h"
#include "text_coding.h"

namespace gossamer::optim {

/// Whether the whole of the text is a number, also one that is not finite; too small a one is 0, too large a
/// one infinite.
bool parse_number(std::string_view text, double& value);
/// An empty field or a word for a missing number: ?, NA, null …
bool is_missing(std::string_view text);

/// One record, kept beyond the reader's next one.
using CsvRecord = std::vector<CsvField>;

/// A row's value of a text column that belongs to no category.
inline constexpr float kNoCategory = -1;

struct FeatureColumn {
  bool text = false;
  /// standardize: what is subtracted from every number before it is rounded to a float, the column's first
  /// one. No number is further from it than √rows deviations from the mean, so that 24 bits hold what
  /// matters; of numbers far from 0 (points in time) they would not.
  std::optional<double> origin{};
  std::unordered_map<std::string, std::uint32_t> categories{};  ///< onehot: in the order of appearance
};

/// The feature columns of the training file, which the test file is held to. Columns are numbered without the
/// label's.
class CsvColumns {
 public:
  /// Throws OptimError for an unknown text_as.
  explicit CsvColumns(const DataSpec& spec);

  bool settled() const { return settled_; }
  std::size_t count() const { return columns_.size(); }
  FeatureColumn& operator[](std::size_t c) { return columns_[c]; }
  const FeatureColumn& operator[](std::size_t c) const { return columns_[c]; }
  const TextCoding& coding() const { return coding_; }
  const std::vector<CsvField>& header() const { return header_; }  ///< features, then label; may be empty
  /// For messages: "city" (in quotes) or 3, by its place in the training file.
  std::string name(std::size_t c) const;
  bool any_text() const;

  /// Decides which columns are text, from the training file's first rows; at least one, or a header.
  /// Throws OptimError (through the reader) where the specification names a column that is not there.
  void settle(const CsvReader& reader, std::span<const CsvRecord> rows, std::size_t label, CsvRecord header);
  /// A text's category, as rows hold it; nothing where there are too many. In training files new ones count.
  std::optional<float> category(std::size_t c, const std::string& text, bool training);

 private:
  std::size_t named_column(const CsvReader& reader, std::size_t line, const std::string& name) const;

  const DataSpec& spec_;
  TextCoding coding_;
  bool settled_ = false;
  std::size_t label_ = 0;
  std::vector<FeatureColumn> columns_;
  CsvRecord header_;
};

}  // namespace gossamer::optim
