// Rows of numbers with a label column, as spreadsheets and data frames write them (csv_reader.h). The first
// line is a header where none of its feature fields is a number or a word for a missing one; where both files
// have one, both name the same columns. Labels that are all integers from 0 to 65535 are the classes
// themselves; otherwise classes are numbered in the order in which labels first appear, the training file
// first.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "csv_reader.h"
#include "dataset.h"

namespace gossamer::optim {
namespace {

constexpr std::int32_t kMostIntegerLabel = 65535;
constexpr std::size_t kHoldOut = 10;  // without a test file one of so many rows is a test row

/// The labels of both files, numbered in the order of first appearance, and their classes.
class Labels {
 public:
  std::uint32_t number(const std::string& label) {
    const auto [at, first] = numbers_.emplace(label, static_cast<std::uint32_t>(values_.size()));
    if (!first) return at->second;
    std::int32_t value = -1;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
    const bool whole = error == std::errc() && end == label.data() + label.size();
    integers_ = integers_ && whole && value >= 0 && value <= kMostIntegerLabel;
    largest_ = std::max(largest_, value);
    values_.push_back(value);
    return at->second;
  }

  std::size_t classes() const { return integers_ ? static_cast<std::size_t>(largest_) + 1 : values_.size(); }
  std::vector<std::int32_t> classes_of(const std::vector<std::uint32_t>& numbers) const {
    std::vector<std::int32_t> out;
    out.reserve(numbers.size());
    for (const std::uint32_t n : numbers)
      out.push_back(integers_ ? values_[n] : static_cast<std::int32_t>(n));
    return out;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::int32_t> values_;  ///< by number; what is no integer does not count
  bool integers_ = true;
  std::int32_t largest_ = -1;
};

struct Table {
  std::size_t features = 0;
  std::vector<float> values;
  std::vector<std::uint32_t> labels;
  std::vector<CsvField> header;  ///< the features' names, then the label's; empty where there is none

  std::size_t rows() const { return labels.size(); }
  /// The given rows, ascending, and no others.
  void keep(const std::vector<std::uint32_t>& chosen) {
    for (std::size_t to = 0; to < chosen.size(); ++to) {
      std::copy_n(values.data() + chosen[to] * features, features, values.data() + to * features);
      labels[to] = labels[chosen[to]];
    }
    labels.resize(chosen.size());
    values.resize(chosen.size() * features);
  }
};

/// Whether the whole of the text is a number, also one that is not finite; too small a one is 0, too large a
/// one infinite.
bool parse_number(std::string_view text, double& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  if (error != std::errc::result_out_of_range) return true;
  std::istringstream in{std::string(text)};  // from_chars does not say which
  in.imbue(std::locale::classic());
  if (!(in >> value)) value = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  return true;
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 7> kWords{"", "?", "na", "n/a", "null", "none", "-"};
  const auto equal = [&](std::string_view word) {
    return std::equal(word.begin(), word.end(), text.begin(), text.end(), [](char a, char b) {
      return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
    });
  };
  return std::any_of(kWords.begin(), kWords.end(), equal);
}

class Parser {
 public:
  Parser(const DataSpec& spec, const std::string& path, Labels& labels)
      : spec_(spec), path_(path), reader_(path), labels_(labels) {}

  Table parse() {
    if (const auto fields = reader_.next(); !fields.empty()) first_row(fields);
    for (auto fields = reader_.next(); !fields.empty(); fields = reader_.next()) data_row(fields);
    if (table_.labels.empty()) throw OptimError(path_ + ": found no rows, expected at least 1");
    return std::move(table_);
  }

 private:
  using Fields = std::span<const CsvField>;

  void first_row(Fields fields) {
    if (fields.size() < 2)
      reader_.fail(fields[0].line, 1,
                   "found 1 field, expected features and a label separated by comma, semicolon or tab");
    table_.features = fields.size() - 1;
    const bool named = find_label(fields);
    if (!named && !is_header(fields)) return data_row(fields);
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (i != label_) table_.header.push_back(fields[i]);
    table_.header.push_back(fields[label_]);
  }

  /// Sets label_; true where the header names it.
  bool find_label(Fields fields) {
    const std::string& label = spec_.label;
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), index);
    if (label == "first" || label == "last") {
      label_ = label == "first" ? 0 : table_.features;
      return false;
    }
    const bool is_index = error == std::errc() && end == label.data() + label.size();
    if (is_index && index < fields.size()) {
      label_ = index;
      return false;
    }
    const auto named =
        std::find_if(fields.begin(), fields.end(), [&](const CsvField& f) { return f.text == label; });
    if (named == fields.end())
      reader_.fail(fields[0].line, 1,
                   "found no label column " + shown(label) + " among " + std::to_string(fields.size()) +
                       " columns, expected first, last, an index from 0 or a name of the header");
    label_ = static_cast<std::size_t>(named - fields.begin());
    return true;
  }

  bool is_header(Fields fields) const {
    bool has_name = false;
    double ignored = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i == label_) continue;
      if (parse_number(fields[i].text, ignored)) return false;
      has_name = has_name || !is_missing(fields[i].text);
    }
    return has_name;
  }

  void data_row(Fields fields) {
    if (fields.size() != table_.features + 1)
      reader_.fail(fields[0].line, 1,
                   "found " + std::to_string(fields.size()) + " fields, expected " +
                       std::to_string(table_.features + 1) + " as in the first line");
    make_room(fields[0]);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const CsvField& field = fields[i];
      if (i != label_) {
        table_.values.push_back(value_of(field));
        continue;
      }
      if (field.text.empty()) reader_.fail(field, "found an empty label, expected a class");
      table_.labels.push_back(labels_.number(field.text));
    }
  }

  float value_of(const CsvField& field) const {
    double number = 0;
    if (!parse_number(field.text, number) || !std::isfinite(number))
      reader_.fail(field, "found " + shown(field.text) + ", expected a finite number");
    const auto value = static_cast<float>((number - spec_.mean) / spec_.scale);
    if (!std::isfinite(value))
      reader_.fail(field,
                   "found " + shown(field.text) +
                       ", expected a number of at most 3.4e38 less data.mean and divided by data.scale");
    return value;
  }

  /// For one more row. Two copies live while the table grows.
  void make_room(const CsvField& at) {
    std::vector<float>& values = table_.values;
    if (values.size() + table_.features <= values.capacity()) return;
    const std::size_t next = std::max(values.size() / 2 * 3, values.size() + table_.features);
    if ((next + values.capacity()) * sizeof(float) > spec_.memory)
      reader_.fail(at, "found more than the " + std::to_string(table_.rows()) + " rows of " +
                           std::to_string(table_.features) + " features that " +
                           std::to_string(spec_.memory) + " bytes of free memory hold; use a smaller file");
    values.reserve(next);
  }

  const DataSpec& spec_;
  const std::string& path_;
  CsvReader reader_;
  Labels& labels_;
  Table table_;
  std::size_t label_ = 0;
};

/// Moves a tenth of train's rows to a table of its own.
Table hold_out(Table& train, const DataSpec& spec) {
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
  Table test;
  test.features = train.features;
  for (const std::uint32_t r : held) {
    const float* row = train.values.data() + std::size_t{r} * train.features;
    test.values.insert(test.values.end(), row, row + train.features);
    test.labels.push_back(train.labels[r]);
  }
  train.keep(left);
  return test;
}

void check_same_columns(const DataSpec& spec, const Table& train, const Table& test) {
  if (test.features != train.features)
    throw OptimError(spec.test_path + ": found " + std::to_string(test.features) + " features, expected " +
                     std::to_string(train.features) + " as in " + spec.path);
  if (test.header.empty() || train.header.empty()) return;
  for (std::size_t i = 0; i < train.header.size(); ++i)
    if (const CsvField& found = test.header[i]; found.text != train.header[i].text)
      throw OptimError(spec.test_path + ":" + std::to_string(found.line) + ":" +
                       std::to_string(found.column) + ": found the column " + shown(found.text) +
                       ", expected " + shown(train.header[i].text) + " as in " + spec.path);
}

Table test_table(const DataSpec& spec, Table& train, Labels& labels) {
  if (spec.test_path.empty()) return hold_out(train, spec);
  Table test = Parser(spec, spec.test_path, labels).parse();
  check_same_columns(spec, train, test);
  return test;
}

Data load_csv(const DataSpec& spec) {
  Labels labels;
  Table train = Parser(spec, spec.path, labels).parse();
  Table test = test_table(spec, train, labels);
  if (spec.limit > 0 && spec.limit < train.rows())
    train.keep(draw_rows(train.rows(), spec.limit, spec.seed, Drawn::limited));
  const auto make = [&](Table& table) {
    return make_float_rows(std::move(table.values), table.features, labels.classes(),
                           labels.classes_of(table.labels));
  };
  return {make(train), make(test)};
}

}  // namespace

constinit const DataFormat kCsv{
    .row = {"csv", "one row per line, one column is the label; comma, semicolon or tab; plain or .gz",
            "path test_path label mean scale limit"},
    .load = load_csv};

}  // namespace gossamer::optim
