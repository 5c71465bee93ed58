// Rows of numbers with a label column, as spreadsheets and data frames write them. The separator (comma,
// semicolon, tab) is the one most frequent in the first line; that line is a header where none of its feature
// fields is a number. Fields may stand in double quotes; empty lines are skipped. Labels that are all
// integers from 0 to 65535 are the classes themselves; otherwise classes are numbered in the order in which
// labels first appear, training rows first.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dataset.h"
#include "file.h"

namespace gossamer::optim {
namespace {

constexpr std::int32_t kMostIntegerLabel = 65535;
constexpr std::size_t kHoldOut = 10;  // without a test file every 10th row is a test row

struct Field {
  std::string_view text;
  std::size_t column;  ///< 1-based, of its first character in the line
};

struct Table {
  std::size_t features = 0;
  std::vector<float> values;
  std::vector<std::string> labels;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// The finite number that the whole of the text is.
bool parse_number(std::string_view text, double& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

class Parser {
 public:
  Parser(const DataSpec& spec, std::string path) : spec_(spec), path_(std::move(path)) {}

  Table parse() {
    const std::string text = read_text(path_);
    std::string_view rest = text;
    if (rest.substr(0, 3) == "\xEF\xBB\xBF") rest.remove_prefix(3);  // byte order mark
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++line_;
      if (trim(line).empty()) continue;
      if (width_ == 0)
        first_line(line);
      else
        data_line(line);
    }
    if (table_.labels.empty()) throw OptimError(path_ + ": found no rows, expected at least 1");
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(std::size_t column, const std::string& what) const {
    throw OptimError(path_ + ":" + std::to_string(line_) + ":" + std::to_string(column) + ": " + what);
  }

  void split(std::string_view line) {
    fields_.clear();
    for (std::size_t start = 0; start <= line.size();) {
      std::size_t first = start;
      while (first < line.size() && line[first] == ' ') ++first;
      std::size_t end = start;
      if (first < line.size() && line[first] == '"') {
        const std::size_t close = line.find('"', first + 1);
        if (close == std::string_view::npos)
          fail(first + 1, "found a quote that is not closed, expected one more \"");
        end = std::min(line.find(separator_, close), line.size());
        fields_.push_back({line.substr(first + 1, close - first - 1), first + 1});
      } else {
        end = std::min(line.find(separator_, start), line.size());
        fields_.push_back({trim(line.substr(start, end - start)), std::min(first, end) + 1});
      }
      start = end + 1;
    }
  }

  void first_line(std::string_view line) {
    std::size_t most = 0;
    for (const char candidate : {',', ';', '\t'}) {
      const auto count = static_cast<std::size_t>(std::count(line.begin(), line.end(), candidate));
      if (count > most) most = count, separator_ = candidate;
    }
    split(line);
    width_ = fields_.size();
    if (width_ < 2)
      fail(1, "found 1 field, expected features and a label separated by comma, semicolon or tab");
    table_.features = width_ - 1;
    const bool named = find_label();
    if (named || !any_feature_is_number()) return;
    data_line(line);
  }

  /// Sets label_; true where the header names it.
  bool find_label() {
    const std::string& label = spec_.label;
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), index);
    if (label == "first" || label == "last") {
      label_ = label == "first" ? 0 : width_ - 1;
      return false;
    }
    const auto named =
        std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.text == label; });
    const bool is_index = error == std::errc() && end == label.data() + label.size();
    if (is_index && index < width_) {
      label_ = index;
      return false;
    }
    if (named == fields_.end())
      fail(1, "found no label column \"" + label + "\" among " + std::to_string(width_) +
                  " columns, expected first, last, an index from 0 or a name of the header");
    label_ = static_cast<std::size_t>(named - fields_.begin());
    return true;
  }

  bool any_feature_is_number() const {
    double ignored = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (i != label_ && parse_number(fields_[i].text, ignored)) return true;
    return false;
  }

  void data_line(std::string_view line) {
    split(line);
    if (fields_.size() != width_)
      fail(1, "found " + std::to_string(fields_.size()) + " fields, expected " + std::to_string(width_) +
                  " as in the first line");
    for (std::size_t i = 0; i < width_; ++i) {
      const Field& field = fields_[i];
      double value = 0;
      if (i == label_) {
        if (field.text.empty()) fail(field.column, "found an empty label, expected a class");
        table_.labels.emplace_back(field.text);
      } else if (parse_number(field.text, value)) {
        table_.values.push_back(static_cast<float>((value - spec_.mean) / spec_.scale));
      } else {
        fail(field.column, "found \"" + std::string(field.text) + "\", expected a finite number");
      }
    }
  }

  const DataSpec& spec_;
  std::string path_;
  Table table_;
  std::vector<Field> fields_;
  std::size_t line_ = 0, width_ = 0, label_ = 0;
  char separator_ = ',';
};

/// The class of each label text, the same for the training and the test rows.
class Classes {
 public:
  Classes(const Table& train, const Table& test) {
    for (const Table* table : {&train, &test})
      for (const std::string& label : table->labels) {
        std::int32_t value = -1;
        const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
        const bool whole = error == std::errc() && end == label.data() + label.size();
        integers_ = integers_ && whole && value >= 0 && value <= kMostIntegerLabel;
        largest_ = std::max(largest_, value);
        order_.emplace(label, static_cast<std::int32_t>(order_.size()));
      }
  }

  std::size_t count() const { return integers_ ? static_cast<std::size_t>(largest_) + 1 : order_.size(); }

  std::vector<std::int32_t> map(const Table& table) const {
    std::vector<std::int32_t> classes;
    classes.reserve(table.labels.size());
    for (const std::string& label : table.labels)
      classes.push_back(integers_ ? static_cast<std::int32_t>(std::stol(label)) : order_.at(label));
    return classes;
  }

 private:
  bool integers_ = true;
  std::int32_t largest_ = -1;
  std::unordered_map<std::string, std::int32_t> order_;
};

/// Moves every 10th row of train to a table of its own.
Table hold_out(Table& train, const std::string& path) {
  const Table all = std::exchange(train, {});
  Table test;
  train.features = test.features = all.features;
  for (std::size_t r = 0; r < all.labels.size(); ++r) {
    Table& to = r % kHoldOut == kHoldOut - 1 ? test : train;
    const auto row = all.values.begin() + static_cast<std::ptrdiff_t>(r * all.features);
    to.values.insert(to.values.end(), row, row + static_cast<std::ptrdiff_t>(all.features));
    to.labels.push_back(all.labels[r]);
  }
  if (test.labels.empty())
    throw OptimError(path + ": found " + std::to_string(all.labels.size()) +
                     " rows, expected at least 10 to hold out every 10th; name a test file (test_path)");
  return test;
}

}  // namespace

Data load_csv(const DataSpec& spec) {
  if (spec.path.empty()) throw OptimError("data csv: found no path, expected the training file");
  Table train = Parser(spec, spec.path).parse();
  Table test = spec.test_path.empty() ? hold_out(train, spec.path) : Parser(spec, spec.test_path).parse();
  if (test.features != train.features)
    throw OptimError(spec.test_path + ": found " + std::to_string(test.features) + " features, expected " +
                     std::to_string(train.features) + " as in " + spec.path);
  const Classes classes(train, test);
  const std::size_t used = limited(train.labels.size(), spec.limit);
  train.labels.resize(used);
  train.values.resize(used * train.features);
  const auto make = [&](Table& table) {
    return make_float_rows(std::move(table.values), table.features, classes.count(), classes.map(table));
  };
  return {make(train), make(test)};
}

}  // namespace gossamer::optim
