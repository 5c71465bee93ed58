#include "csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr std::int32_t kMostIntegerLabel = 65535;
constexpr std::size_t kLookAhead = 101;  // records, a header among them, that tell what columns hold

class Parser {
 public:
  Parser(const DataSpec& spec, const std::string& path, CsvLabels& labels, CsvColumns& columns)
      : spec_(spec),
        path_(path),
        reader_(path),
        labels_(labels),
        columns_(columns),
        training_(!columns.settled()) {}

  CsvTable parse() {
    const std::vector<CsvRecord> first = look_ahead();
    if (!first.empty())
      for (const CsvRecord& record : std::span(first).subspan(start(first))) data_row(record);
    for (auto fields = reader_.next(); !fields.empty(); fields = reader_.next()) data_row(fields);
    if (table_.labels.empty()) throw OptimError(path_ + ": found no rows, expected at least 1");
    if (training_) {
      const std::vector<std::int32_t> classes = labels_.settle();
      for (std::int32_t& label : table_.labels) label = classes[static_cast<std::size_t>(label)];
    }
    return std::move(table_);
  }

 private:
  using Fields = std::span<const CsvField>;

  std::vector<CsvRecord> look_ahead() {
    std::vector<CsvRecord> records;
    const std::size_t most = columns_.coding().reads_text() ? kLookAhead : 1;
    while (records.size() < most) {
      const Fields fields = reader_.next();
      if (fields.empty()) break;
      records.emplace_back(fields.begin(), fields.end());
    }
    return records;
  }

  /// Finds label and header; how many of the first records are no rows.
  std::size_t start(std::span<const CsvRecord> first) {
    const CsvRecord& top = first.front();
    if (top.size() < 2)
      reader_.fail(top[0].line, 1,
                   "found 1 field, expected features and a label separated by comma, semicolon or tab");
    table_.features = top.size() - 1;
    const bool named = find_label(top);
    const bool has_header = named || is_header(first);
    CsvRecord header;
    if (has_header) {
      for (std::size_t i = 0; i < top.size(); ++i)
        if (i != label_) header.push_back(top[i]);
      header.push_back(top[label_]);
    }
    const std::size_t skipped = has_header ? 1 : 0;
    if (training_)
      columns_.settle(reader_, first.subspan(skipped), label_, std::move(header));
    else
      check_same_columns(header);
    return skipped;
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
    const auto second =
        std::find_if(named + 1, fields.end(), [&](const CsvField& f) { return f.text == label; });
    if (second != fields.end())
      reader_.fail(*second, "found a second column " + shown(label) +
                                ", expected one of the label's name; give the place of the one that is "
                                "meant, an index from 0, as data.label");
    label_ = static_cast<std::size_t>(named - fields.begin());
    return true;
  }

  bool is_header(std::span<const CsvRecord> first) const {
    if (!only_words(first.front())) return false;
    if (!columns_.coding().reads_text()) return true;
    return training_ ? differs_from_rows(first) : continues_training(first.front());
  }

  /// None of the features is a number or missing, but for some.
  bool only_words(Fields fields) const {
    bool has_name = false;
    double ignored = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i == label_) continue;
      if (parse_number(fields[i].text, ignored)) return false;
      has_name = has_name || !is_missing(fields[i].text);
    }
    return has_name;
  }

  /// Columns of text may begin with text without a header. The first record is one where a column has numbers
  /// alone below its word, or where its label is neither a number nor any of the labels below.
  bool differs_from_rows(std::span<const CsvRecord> first) const {
    const std::string& label = first.front()[label_].text;
    const auto rows = first.subspan(1);
    for (std::size_t i = 0; i <= table_.features; ++i)
      if (i != label_ && holds_numbers(rows, i)) return true;
    double ignored = 0;
    return !parse_number(label, ignored) && std::none_of(rows.begin(), rows.end(), [&](const CsvRecord& row) {
      return label_ < row.size() && row[label_].text == label;
    });
  }

  static bool holds_numbers(std::span<const CsvRecord> rows, std::size_t place) {
    std::size_t numbers = 0;
    double ignored = 0;
    for (const CsvRecord& row : rows) {
      if (place >= row.size() || is_missing(row[place].text)) continue;
      if (!parse_number(row[place].text, ignored)) return false;
      ++numbers;
    }
    return numbers > 0;
  }

  /// As above, by what the training file's columns hold or most of them are called.
  bool continues_training(Fields top) const {
    for (std::size_t c = 0; c < columns_.count(); ++c)
      if (!columns_[c].text) return true;
    const std::vector<CsvField>& names = columns_.header();
    const auto shared = std::count_if(names.begin(), names.end(), [&](const CsvField& name) {
      return std::any_of(top.begin(), top.end(), [&](const CsvField& f) { return f.text == name.text; });
    });
    return !names.empty() && 2 * static_cast<std::size_t>(shared) >= names.size();
  }

  /// The test file's against the training file's.
  void check_same_columns(const CsvRecord& header) const {
    const std::vector<CsvField>& expected = columns_.header();
    const bool both_named = !header.empty() && !expected.empty();
    for (const CsvField& name : expected) {
      const bool there =
          std::any_of(header.begin(), header.end(), [&](const CsvField& f) { return f.text == name.text; });
      if (both_named && !there && header.size() < expected.size())
        reader_.fail(header[0].line, 1,
                     "found no column " + shown(name.text) + ", expected it as in " + spec_.path);
    }
    if (table_.features != columns_.count())
      throw OptimError(path_ + ": found " + std::to_string(table_.features) + " features, expected " +
                       std::to_string(columns_.count()) + " as in " + spec_.path);
    for (std::size_t i = 0; both_named && i < expected.size(); ++i)
      if (header[i].text != expected[i].text)
        reader_.fail(header[i], "found the column " + shown(header[i].text) + ", expected " +
                                    shown(expected[i].text) + " as in " + spec_.path);
  }

  void data_row(Fields fields) {
    if (fields.size() != table_.features + 1)
      reader_.fail(fields[0].line, 1,
                   "found " + std::to_string(fields.size()) + " fields, expected " +
                       std::to_string(table_.features + 1) + " as in the first line");
    make_room(fields[0]);
    for (std::size_t i = 0, c = 0; i < fields.size(); ++i) {
      const CsvField& field = fields[i];
      if (i != label_) {
        table_.values.push_back(columns_[c].text ? category_of(c, field) : number_of(c, field));
        ++c;
        continue;
      }
      if (field.text.empty()) reader_.fail(field, "found an empty label, expected a class");
      table_.labels.push_back(label_of(field));
    }
  }

  std::int32_t label_of(const CsvField& field) {
    if (training_) return labels_.add(field.text);
    const auto known = labels_.find(field.text);
    if (!known)
      reader_.fail(field, "found the label " + shown(field.text) + ", which no row of " + spec_.path +
                              " has; expected one of that file's labels, which a model learns alone: leave "
                              "such rows out, or have some in both files");
    return *known;
  }

  float category_of(std::size_t c, const CsvField& field) {
    const auto category = columns_.category(c, field.text, training_);
    if (!category)
      reader_.fail(field, "found " + shown(field.text) + ", the " + std::to_string(kMostCategories + 1) +
                              "th text of the column " + columns_.name(c) + "; expected at most " +
                              std::to_string(kMostCategories) +
                              " for data.text_as = \"onehot\": use \"hash:N\", e.g. hash:64");
    return *category;
  }

  float number_of(std::size_t c, const CsvField& field) {
    double number = 0;
    if (!parse_number(field.text, number) || !std::isfinite(number))
      reader_.fail(field, "found " + shown(field.text) + ", expected a finite number" + advice(field));
    std::optional<double>& origin = columns_[c].origin;
    if (spec_.standardize && !origin) origin = number;
    const double moved = spec_.standardize ? number - *origin : (number - spec_.mean) / spec_.scale;
    const auto value = static_cast<float>(moved);
    if (!std::isfinite(value))
      reader_.fail(
          field, "found " + shown(field.text) + ", expected a number of at most 3.4e38 less " +
                     (spec_.standardize ? "the column's first one" : "data.mean and divided by data.scale"));
    return value;
  }

  /// Where a column may well hold text.
  std::string advice(const CsvField& field) const {
    double ignored = 0;
    if (is_missing(field.text) || parse_number(field.text, ignored)) return "";
    if (!columns_.coding().reads_text())
      return " (data.text_as = \"onehot\" or \"hash:N\" reads columns of text)";
    return "; name the column in data.text where it holds text";
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
  CsvLabels& labels_;
  CsvColumns& columns_;
  const bool training_;
  CsvTable table_;
  std::size_t label_ = 0;
};

}  // namespace

std::int32_t CsvLabels::add(const std::string& label) {
  return numbers_.emplace(label, static_cast<std::int32_t>(numbers_.size())).first->second;
}

std::vector<std::int32_t> CsvLabels::settle() {
  for (const auto& [text, number] : numbers_) {
    double value = 0;
    numeric_ = numeric_ && parse_number(text, value) && std::isfinite(value);
    if (numeric_) values_.emplace(value, 0);
    texts_.emplace(text, 0);
  }
  const bool are_classes =
      numeric_ && std::all_of(values_.begin(), values_.end(), [](const auto& at) {
        return at.first >= 0 && at.first <= kMostIntegerLabel && at.first == std::floor(at.first);
      });
  std::int32_t next = 0;
  for (auto& [text, ordered] : texts_) ordered = next++;
  if (numeric_) next = 0;
  for (auto& [value, ordered] : values_) {
    ordered = are_classes ? static_cast<std::int32_t>(value) : next;
    next = ordered + 1;
  }
  classes_ = static_cast<std::size_t>(next);
  std::vector<std::int32_t> classes(numbers_.size());
  for (const auto& [text, number] : numbers_) classes[static_cast<std::size_t>(number)] = *find(text);
  return classes;
}

std::optional<std::int32_t> CsvLabels::find(const std::string& label) const {
  double value = 0;
  if (numeric_ && parse_number(label, value))
    if (const auto at = values_.find(value); at != values_.end()) return at->second;
  if (numeric_) return std::nullopt;
  const auto at = texts_.find(label);
  return at == texts_.end() ? std::nullopt : std::optional(at->second);
}

void CsvTable::keep(const std::vector<std::uint32_t>& chosen) {
  for (std::size_t to = 0; to < chosen.size(); ++to) {
    std::copy_n(values.data() + chosen[to] * features, features, values.data() + to * features);
    labels[to] = labels[chosen[to]];
  }
  labels.resize(chosen.size());
  values.resize(chosen.size() * features);
}

CsvTable parse_csv(const DataSpec& spec, const std::string& path, CsvLabels& labels, CsvColumns& columns) {
  return Parser(spec, path, labels, columns).parse();
}

}  // namespace gossamer::optim
