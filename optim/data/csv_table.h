#pragma once
// One CSV file as a table of floats and labels.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "csv_columns.h"

namespace gossamer::optim {

/// The labels of both files, numbered in the order of first appearance, and their classes.
class CsvLabels {
 public:
  std::uint32_t number(const std::string& label);
  std::size_t classes() const { return integers_ ? static_cast<std::size_t>(largest_) + 1 : values_.size(); }
  std::vector<std::int32_t> classes_of(const std::vector<std::uint32_t>& numbers) const;

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::int32_t> values_;  ///< by number; what is no integer does not count
  bool integers_ = true;
  std::int32_t largest_ = -1;
};

struct CsvTable {
  std::size_t features = 0;   ///< columns: a text column has its category's number
  std::vector<float> values;  ///< row by row
  std::vector<std::uint32_t> labels;

  std::size_t rows() const { return labels.size(); }
  /// The given rows, ascending, and no others.
  void keep(const std::vector<std::uint32_t>& chosen);
};

/// Reads a file; the first one is the training file, and settles what the columns hold. Throws OptimError
/// with file:line:column.
CsvTable parse_csv(const DataSpec& spec, const std::string& path, CsvLabels& labels, CsvColumns& columns);

}  // namespace gossamer::optim
