#pragma once
// One CSV file as a table of floats and labels.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "csv_columns.h"

namespace gossamer::optim {

/// The training file's labels, and the classes that they are: integers from 0 to 65535 themselves, other
/// numbers in the order of their values, texts in the order of their bytes. Where all are numbers, texts of
/// one value are one label.
class CsvLabels {
 public:
  /// A training row's label: its number, until they are settled.
  std::int32_t add(const std::string& label);
  /// After the last training row: the class of each number.
  std::vector<std::int32_t> settle();
  /// The class of a test row's label; nothing where no training row has it.
  std::optional<std::int32_t> find(const std::string& label) const;
  std::size_t classes() const { return classes_; }

 private:
  std::unordered_map<std::string, std::int32_t> numbers_;
  bool numeric_ = true;
  std::map<std::string, std::int32_t> texts_;  ///< their classes, where some are no numbers
  std::map<double, std::int32_t> values_;
  std::size_t classes_ = 0;
};

struct CsvTable {
  std::size_t features = 0;          ///< columns: a text column has its category's number
  std::vector<float> values;         ///< row by row
  std::vector<std::int32_t> labels;  ///< classes

  std::size_t rows() const { return labels.size(); }
  /// The given rows, ascending, and no others.
  void keep(const std::vector<std::uint32_t>& chosen);
};

/// Reads a file; the first one is the training file, and settles what the columns hold. Throws OptimError
/// with file:line:column.
CsvTable parse_csv(const DataSpec& spec, const std::string& path, CsvLabels& labels, CsvColumns& columns);

}  // namespace gossamer::optim
