#define XXH_INLINE_ALL
#include "csv_columns.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>
#include <utility>

namespace gossamer::optim {

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

namespace {

/// Whether the first of the rows that has a value there has text; without any, the column is of numbers.
bool begins_with_text(std::span<const CsvRecord> rows, std::size_t place) {
  double ignored = 0;
  for (const CsvRecord& row : rows)
    if (place < row.size() && !is_missing(row[place].text)) return !parse_number(row[place].text, ignored);
  return false;
}

}  // namespace

CsvColumns::CsvColumns(const DataSpec& spec) : spec_(spec), coding_(text_coding(spec.text_as)) {}

std::string CsvColumns::name(std::size_t c) const {
  return header_.empty() ? std::to_string(c + (c >= label_)) : shown(header_[c].text);
}

bool CsvColumns::any_text() const {
  return std::any_of(columns_.begin(), columns_.end(), [](const FeatureColumn& c) { return c.text; });
}

void CsvColumns::settle(const CsvReader& reader, std::span<const CsvRecord> rows, std::size_t label,
                        CsvRecord header) {
  settled_ = true;
  label_ = label;
  header_ = std::move(header);
  columns_.resize((header_.empty() ? rows.front() : header_).size() - 1);
  if (!coding_.reads_text()) return;
  for (std::size_t c = 0; spec_.text.empty() && c < columns_.size(); ++c)
    columns_[c].text = begins_with_text(rows, c + (c >= label_));
  const std::size_t line = (header_.empty() ? rows.front() : header_)[0].line;
  for (const std::string& name : spec_.text) {
    if (name == "*")
      for (FeatureColumn& column : columns_) column.text = true;
    else
      columns_[named_column(reader, line, name)].text = true;
  }
}

std::size_t CsvColumns::named_column(const CsvReader& reader, std::size_t line,
                                     const std::string& name) const {
  const auto named =
      std::find_if(header_.begin(), header_.end(), [&](const auto& f) { return f.text == name; });
  std::size_t place = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
  const bool is_place = error == std::errc() && end == name.data() + name.size() && place <= columns_.size();
  std::size_t c = columns_.size();  // the label's
  if (named != header_.end())
    c = static_cast<std::size_t>(named - header_.begin());
  else if (is_place && place != label_)
    c = place - (place > label_);
  else if (!is_place)
    reader.fail(line, 1,
                "data.text: found no column " + shown(name) + " among " + std::to_string(count() + 1) +
                    " columns, expected an index from 0 or a name of the header");
  if (c == columns_.size())
    reader.fail(line, 1,
                "data.text: found the label's column " + shown(name) + ", expected columns of features");
  return c;
}

std::optional<float> CsvColumns::category(std::size_t c, const std::string& text, bool training) {
  if (text.empty()) return kNoCategory;
  if (coding_.kind == TextCoding::Kind::hash)
    return static_cast<float>(XXH3_64bits(text.data(), text.size()) % coding_.features);
  auto& categories = columns_[c].categories;
  const auto known = categories.find(text);
  if (known != categories.end()) return static_cast<float>(known->second);
  if (!training) return kNoCategory;
  if (categories.size() == kMostCategories) return std::nullopt;
  return static_cast<float>(categories.emplace(text, categories.size()).first->second);
}

}  // namespace gossamer::optim
