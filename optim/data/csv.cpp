// Rows of numbers with a label column, as spreadsheets and data frames write them (csv_reader.h). The first
// line is a header where none of its feature fields is a number or a word for a missing one (and where text
// is read, what stands below differs: csv_table.cpp); where both files have one, both name the same columns.
// Labels that are all integers from 0 to 65535 are the classes themselves; otherwise they are numbered in
// their own order, by value or text, whatever that of the rows is; a test row has a label of the training
// file's. Numbers may be standardised, and columns of text become features by one-hot or hashed categories
// (csv_columns.h); what that takes is learned from the training rows alone.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "csv_table.h"
#include "dataset.h"
#include "standardize.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kHoldOut = 10;  // without a test file one of so many rows is a test row
constexpr std::size_t kMostFeatures = std::size_t{1} << 24;

struct Tables {
  CsvTable train, test;
};

/// Moves a tenth of train's rows to a table of its own.
CsvTable hold_out(CsvTable& train, const DataSpec& spec) {
  const std::size_t rows = train.rows();
  if (rows < kHoldOut)
    throw OptimError(spec.path + ": found " + std::to_string(rows) + " rows, expected at least " +
                     std::to_string(kHoldOut) + " to hold out a tenth; name a test file (test_path)");
  const std::vector<std::uint32_t> held = draw_rows(rows, rows / kHoldOut, spec.seed, Drawn::held_out);
  std::vector<std::uint32_t> left;
  left.reserve(rows - held.size());
  for (std::uint32_t r = 0, h = 0; r < rows; ++r) {
    if (h < held.size() && held[h] == r)
      ++h;
    else
      left.push_back(r);
  }
  CsvTable test;
  test.features = train.features;
  for (const std::uint32_t r : held) {
    const float* row = train.values.data() + std::size_t{r} * train.features;
    test.values.insert(test.values.end(), row, row + train.features);
    test.labels.push_back(train.labels[r]);
  }
  train.keep(left);
  return test;
}

Tables read(const DataSpec& spec, CsvLabels& labels, CsvColumns& columns) {
  Tables tables;
  tables.train = parse_csv(spec, spec.path, labels, columns);
  tables.test = spec.test_path.empty() ? hold_out(tables.train, spec)
                                       : parse_csv(spec, spec.test_path, labels, columns);
  if (spec.limit > 0 && spec.limit < tables.train.rows())
    tables.train.keep(draw_rows(tables.train.rows(), spec.limit, spec.seed, Drawn::limited));
  return tables;
}

/// A file's value of the column in each row.
template <class F>
void for_each_value(CsvTable& table, std::size_t column, const F& f) {
  for (std::size_t at = column; at < table.values.size(); at += table.features) f(table.values[at]);
}

/// Every text column's number of features. Under onehot these are the categories of the training rows, which
/// are numbered anew: the file may have held others, in rows that are left out.
std::vector<std::uint32_t> settle_categories(const CsvColumns& columns, Tables& tables) {
  std::vector<std::uint32_t> widths(columns.count(), 0);
  for (std::size_t c = 0; c < columns.count(); ++c) {
    if (!columns[c].text) continue;
    if (columns.coding().kind == TextCoding::Kind::hash) {
      widths[c] = static_cast<std::uint32_t>(columns.coding().features);
      continue;
    }
    std::vector<float> numbers(columns[c].categories.size(), kNoCategory);
    for_each_value(tables.train, c, [&](float value) {
      if (value == kNoCategory) return;
      float& number = numbers[static_cast<std::size_t>(value)];
      if (number == kNoCategory) number = static_cast<float>(widths[c]++);
    });
    for (CsvTable* table : {&tables.train, &tables.test})
      for_each_value(*table, c, [&](float& value) {
        if (value != kNoCategory) value = numbers[static_cast<std::size_t>(value)];
      });
    widths[c] = std::max(widths[c], 1U);  // all empty: a feature that is always 0
  }
  return widths;
}

void standardize(const DataSpec& spec, const CsvColumns& columns, Tables& tables) {
  const std::vector<Standardization> of = standardization_of(tables.train.values, columns.count());
  for (CsvTable* table : {&tables.train, &tables.test})
    for (std::size_t at = 0, c = 0; at < table->values.size(); ++at, c = c + 1 == of.size() ? 0 : c + 1) {
      if (columns[c].text) continue;
      float& value = table->values[at];
      value = static_cast<float>((static_cast<double>(value) - of[c].mean) * of[c].factor);
      if (!std::isfinite(value))
        throw OptimError((spec.test_path.empty() ? spec.path : spec.test_path) + ": test row " +
                         std::to_string(at / of.size() + 1) + " has a number in the column " +
                         columns.name(c) +
                         " that is more than 3.4e38 standard deviations of the training rows from their "
                         "mean, which no float holds");
    }
}

/// Rows take no more memory than the file's columns, but what is gathered of them does.
void check_width(const DataSpec& spec, const CsvColumns& columns, const std::vector<std::uint32_t>& widths,
                 std::size_t rows) {
  std::size_t features = 0;
  for (const std::uint32_t width : widths) features += std::max(width, 1U);
  const std::size_t block = std::min(rows, kEvaluationRows) * features * sizeof(float);
  if (features <= kMostFeatures && block <= spec.memory) return;
  const auto widest = std::max_element(widths.begin(), widths.end());
  throw OptimError(spec.path + ": found " + std::to_string(features) + " features (" +
                   std::to_string(*widest) + " of the text column " +
                   columns.name(static_cast<std::size_t>(widest - widths.begin())) + "), of which " +
                   std::to_string(std::min(rows, kEvaluationRows)) + " rows take " + std::to_string(block) +
                   " bytes; expected at most " + std::to_string(kMostFeatures) + " features and the " +
                   std::to_string(spec.memory) +
                   " bytes of free memory: use \"hash:N\" with a smaller N in data.text_as");
}

Data load_csv(const DataSpec& spec) {
  CsvLabels labels;
  CsvColumns columns(spec);
  Tables tables = read(spec, labels, columns);
  if (spec.standardize) standardize(spec, columns, tables);
  const bool wide = columns.any_text();
  std::vector<std::uint32_t> widths;
  if (wide) {
    widths = settle_categories(columns, tables);
    check_width(spec, columns, widths, std::max(tables.train.rows(), tables.test.rows()));
  }
  const auto make = [&](CsvTable& table) {
    return wide ? make_category_rows(std::move(table.values), widths, labels.classes(),
                                     std::move(table.labels))
                : make_float_rows(std::move(table.values), table.features, labels.classes(),
                                  std::move(table.labels));
  };
  return {make(tables.train), make(tables.test)};
}

}  // namespace

constinit const DataFormat kCsv{
    .row =
        {"csv",
         "one row per line, one column is the label; comma, semicolon or tab; plain or .gz; text columns by "
         "text_as",
         "path test_path label mean scale limit standardize text_as text seed"},
    .load = load_csv};

}  // namespace gossamer::optim
