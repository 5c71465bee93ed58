// CSV as data/csv_reader.h understands it, but with each record on one line, so that lines can be dealt out
// and parsed apart. A text column's entry has the key hash(text, column) and the value 1; a number's has the
// column's key and the number, and none where that is 0. An empty field has no entry. The field of an entry
// is its column's number, the label's column left out.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "parse_lines.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kRowsLookedAt = 100;
constexpr std::size_t kBytesLookedAt = std::size_t{1} << 16;

struct CsvColumn {
  std::uint64_t key = 0;
  std::uint32_t field = 0;
  bool text = false, label = false;
};

/// One field of a line; `scratch` holds it where doubled quotes had to go.
struct CsvPart {
  std::string_view text;
  const char* at = nullptr;  ///< its first byte in the line
};

/// p ← after the field, at the separator or the end. False where quotes are wrong.
bool scan_csv_part(const char*& p, const char* end, char separator, std::string& scratch, CsvPart& part,
                   LineFault& fault) {
  const auto blank = [&](char c) { return is_blank(c) && c != separator; };
  while (p != end && blank(*p)) ++p;
  part.at = p;
  if (p == end || *p != '"') {
    const char* last = std::find(p, end, separator);
    const char* quote = std::find(p, last, '"');
    if (quote != last) {
      fault = {quote, "found a quote within a field, expected quotes around the field and this one twice"};
      return false;
    }
    const char* first = p;
    p = last;
    while (last > first && blank(last[-1])) --last;
    part.text = {first, static_cast<std::size_t>(last - first)};
    return true;
  }
  scratch.clear();
  for (++p;;) {
    const char* quote = std::find(p, end, '"');
    if (quote == end) {
      fault = {part.at, "found a quote that is not closed on its line, expected one more \""};
      return false;
    }
    scratch.append(p, quote);
    p = quote + 1;
    if (p == end || *p != '"') break;
    scratch.push_back('"');
    ++p;
  }
  while (p != end && blank(*p)) ++p;
  part.text = scratch;
  if (p == end || *p == separator) return true;
  fault = {p, "found " + shown({p, 1}) + " after the closing quote, expected the next field"};
  return false;
}

bool is_decimal(std::string_view text) {
  const std::string padded = std::string(text) + std::string(kTextPadding, '\0');
  float value = 0;
  return scan_decimal(padded.data(), padded.data() + text.size(), value) == padded.data() + text.size();
}

class CsvLines final : public LineFormat {
 public:
  explicit CsvLines(const SampleStreamSpec& spec)
      : label_(spec.label), text_(spec.text), head_(spec.head ? spec.head : std::make_shared<SampleHead>()) {}

  bool has_fields() const override { return true; }
  std::size_t most_entries(const TextPiece& piece) const override {
    return count_of(piece.view(), separator_) + piece.line_breaks + 1;
  }

  bool can_start(std::string_view text) const override {
    text = text.substr(0, text.rfind('\n') + 1);
    text.remove_prefix(first_line(text));
    if (text.empty()) return false;
    const auto others = head_->held();
    if (!others) return head_end(text) != text.npos;
    return fields_of(line_at(text, 0)) == fields_of(line_at(others->lines, 0)) ||
           text.find('\n') + 1 < text.size();
  }

  std::size_t start(const TextPiece& piece) override {
    const std::size_t begin = first_line(piece.head);
    const std::string_view text = std::string_view(piece.head).substr(begin);
    const std::string_view line = line_at(text, 0);
    const bool first = columns_.empty();
    if (!line.empty() && first) {
      const auto [name, lines] = head_->hold({piece.name, std::string(text.substr(0, head_end(text)))});
      find_columns(name, lines);
      stand_as_in(line);
    }
    if (!line.empty()) refuse_others(piece.name, text, first);
    return std::min(piece.size, begin + (!line.empty() && is_header(line) ? line.size() : 0));
  }

  void parse(const TextPiece& piece, const SampleShare& share, SampleBlock& out) const override {
    std::string scratch;
    parse_lines(piece, share, out,
                [&](const char* p, const char* end, SampleBlock::Writer& writer, float& label,
                    LineFault& fault) { return line(p, end, scratch, writer, label, fault); });
  }

 private:
  static std::string_view line_at(std::string_view text, std::size_t begin) {
    std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  /// Where the first line begins that is not blank.
  static std::size_t first_line(std::string_view text) {
    std::size_t begin = byte_order_mark(text);
    for (std::size_t at = begin; at < text.size(); ++at) {
      if (text[at] == '\n')
        begin = at + 1;
      else if (!is_blank(text[at]) && text[at] != '\r')
        return begin;
    }
    return text.size();
  }

  /// The line's fields, or none and what is wrong.
  static std::vector<std::string> split(std::string_view line, char separator, LineFault& fault) {
    std::vector<std::string> parts;
    std::string scratch;
    for (const char *p = line.data(), *end = p + line.size();; ++p) {
      CsvPart part;
      if (!scan_csv_part(p, end, separator, scratch, part, fault)) return {};
      parts.emplace_back(part.text);
      if (p == end) return parts;
    }
  }

  std::vector<std::string> split(std::string_view line) const {
    LineFault fault;
    return split(line, separator_, fault);
  }

  static char separator_of(std::string_view line) {
    char most = ',';
    for (const char candidate : {';', '\t'})
      if (count_of(line, candidate) > count_of(line, most)) most = candidate;
    return most;
  }

  /// The columns that were found, in the order in which this line names them.
  void stand_as_in(std::string_view line) {
    separator_ = separator_of(line);
    const std::vector<std::string> parts = split(line);
    if (parts == names_ || !std::is_permutation(parts.begin(), parts.end(), names_.begin(), names_.end()))
      return;
    std::vector<CsvColumn> columns;
    for (const std::string& part : parts)
      columns.push_back(columns_[static_cast<std::size_t>(std::ranges::find(names_, part) - names_.begin())]);
    columns_ = std::move(columns);
    names_ = parts;
  }

  static std::size_t fields_of(std::string_view line) {
    LineFault fault;
    return split(line, separator_of(line), fault).size();
  }

  /// Where the lines end by which columns are found: each has a value below the first line, or it was looked
  /// for long enough. npos: that takes more lines. Nothing else may tell, as how much text came at once.
  std::size_t head_end(std::string_view text) const {
    const char separator = separator_of(line_at(text, 0));
    std::vector<bool> empty(text_.empty() ? fields_of(line_at(text, 0)) : 0, true);
    std::size_t at = text.find('\n');
    for (std::size_t row = 0; at != text.npos; ++row) {
      const bool enough = row == kRowsLookedAt || (row > 0 && at >= kBytesLookedAt);
      if (enough || std::ranges::find(empty, true) == empty.end()) return at + 1;
      LineFault fault;
      const std::vector<std::string> parts = split(line_at(text, at + 1), separator, fault);
      at = text.find('\n', at + 1);
      for (std::size_t c = 0; c < std::min(empty.size(), parts.size()); ++c)
        if (!parts[c].empty()) empty[c] = false;
    }
    return at;
  }

  /// The separator is the one most frequent in the first line; that is a header where the label's place holds
  /// no number.
  void find_columns(const std::string& name, std::string_view text) {
    const std::string_view line = line_at(text, 0);
    separator_ = separator_of(line);
    LineFault fault;
    const std::vector<std::string> first = split(line, separator_, fault);
    if (first.empty())
      throw OptimError(name + ":1:" + std::to_string(fault.at - line.data() + 1) + ": " + fault.what);
    const auto number = [&](const std::string& of) -> std::optional<std::size_t> {
      if (const auto at = std::find(first.begin(), first.end(), of); at != first.end() && !is_decimal(of))
        return static_cast<std::size_t>(at - first.begin());
      std::size_t place = 0;
      const auto [after, error] = std::from_chars(of.data(), of.data() + of.size(), place);
      if (error != std::errc() || after != of.data() + of.size() || place >= first.size()) return {};
      return place;
    };
    const auto label = label_ == "first"  ? std::optional<std::size_t>(0)
                       : label_ == "last" ? std::optional(first.size() - 1)
                                          : number(label_);
    if (!label) fail(name, "label", label_, first.size());
    const bool has_header = !is_decimal(first[*label]);
    first_text_ = name;
    if (has_header) {
      header_ = line;
      names_ = first;
    }
    if (has_header) text.remove_prefix(std::min(text.size(), line.size() + 1));
    set_columns(first, has_header, first_values(text, first.size()), *label);
    for (const std::string& column : text_) {
      if (column == "*") continue;
      const auto place = number(column);
      if (!place) fail(name, "text", column, first.size());
      columns_[*place].text = true;
    }
  }

  /// What the label is called makes no difference.
  bool is_header(std::string_view line) const {
    const std::vector<std::string> parts = split(line);
    if (names_.empty() || parts.size() != names_.size()) return false;
    for (std::size_t c = 0; c < parts.size(); ++c)
      if (columns_[c].label ? is_decimal(parts[c]) : parts[c] != names_[c]) return false;
    return true;
  }

  /// Columns keep the places in which the first text has them. of_others: that was another stream's.
  void refuse_others(const std::string& name, std::string_view text, bool of_others) const {
    const std::string_view line = line_at(text, 0);
    if (is_header(line)) return;
    const std::vector<std::string> parts = split(line);
    const bool names = !parts.empty() && std::none_of(parts.begin(), parts.end(), is_decimal);
    if (of_others && parts.empty()) return;  // it cannot be understood, and is counted
    if (of_others && parts.size() != columns_.size() && !next_fits(text))
      throw OptimError(name + ":1: found " + std::to_string(parts.size()) + " columns, expected " +
                       std::to_string(columns_.size()) + ", as in " + first_text_);
    if (!names || parts.size() != columns_.size()) return;
    throw OptimError(name + ":1: found the header " + shown(line) + ", expected " +
                     (header_.empty() ? "none, as in " : shown(header_) + " or none, as in ") + first_text_);
  }

  /// Then the line is a bad one among others.
  bool next_fits(std::string_view text) const {
    const std::size_t end = text.find('\n');
    return end != text.npos && split(line_at(text, end + 1)).size() == columns_.size();
  }

  /// Of each column the first value that is not empty, in the first rows.
  std::vector<std::string> first_values(std::string_view text, std::size_t columns) const {
    std::vector<std::string> found(columns);
    for (std::size_t row = 0, at = 0; row < kRowsLookedAt && at < text.size(); ++row) {
      const std::string_view line = line_at(text, at);
      at = std::min(text.size(), text.find('\n', at)) + 1;
      const std::vector<std::string> parts = split(line);
      for (std::size_t c = 0; c < std::min(columns, parts.size()); ++c)
        if (found[c].empty()) found[c] = parts[c];
    }
    return found;
  }

  void set_columns(const std::vector<std::string>& names, bool has_header,
                   const std::vector<std::string>& values, std::size_t label) {
    const bool all = std::find(text_.begin(), text_.end(), "*") != text_.end();
    std::uint32_t field = 0;
    for (std::size_t c = 0; c < names.size(); ++c) {
      CsvColumn column;
      column.key = has_header ? XXH3_64bits(names[c].data(), names[c].size()) : mix(c + 1);
      column.label = c == label;
      column.field = column.label ? 0 : field++;
      const bool holds_text = !values[c].empty() && !is_decimal(values[c]);
      column.text = all || (text_.empty() && holds_text);
      columns_.push_back(column);
    }
  }

  [[noreturn]] static void fail(const std::string& text, const char* what, const std::string& name,
                                std::size_t columns) {
    throw OptimError(text + ": data." + what + ": found \"" + name +
                     "\", expected a column of the first line, or a number below " + std::to_string(columns));
  }

  Parsed line(const char* p, const char* end, std::string& scratch, SampleBlock::Writer& out, float& label,
              LineFault& fault) const {
    for (std::size_t c = 0;; ++c, ++p) {
      CsvPart part;
      if (c == columns_.size())
        return bad_line(fault, p - 1,
                        "found more fields, expected " + std::to_string(columns_.size()) + " in a row");
      if (!scan_csv_part(p, end, separator_, scratch, part, fault)) return Parsed::bad;
      if (c == 0 && p == end && part.text.empty()) return Parsed::nothing;
      if (!add(columns_[c], part, out, label, fault)) return Parsed::bad;
      if (p != end) continue;
      if (c + 1 == columns_.size()) return Parsed::sample;
      return bad_line(fault, end,
                      "found " + std::to_string(c + 1) + " fields, expected " +
                          std::to_string(columns_.size()) + " in a row");
    }
  }

  static bool add(const CsvColumn& column, const CsvPart& part, SampleBlock::Writer& out, float& label,
                  LineFault& fault) {
    if (!column.label && part.text.empty()) return true;
    if (column.text && !column.label) {
      const std::uint64_t key = XXH3_64bits_withSeed(part.text.data(), part.text.size(), column.key);
      out.add(key == kBiasKey ? 0 : key, 1, column.field);
      return true;
    }
    const char* end = part.text.data() + part.text.size();
    float value = 0;
    const char* after =
        column.label ? scan_label(part.text.data(), end, value) : scan_decimal(part.text.data(), end, value);
    if (after != end) {
      bad_line(fault, part.at,
               "found " + (part.text.empty() ? "an empty field" : shown(part.text)) +
                   (column.label ? ", expected a label: 1, 0 or -1"
                                 : ", expected a finite number; name the column in text where it is none"));
      return false;
    }
    if (column.label)
      label = value;
    else if (value != 0)
      out.add(column.key == kBiasKey ? 0 : column.key, value, column.field);
    return true;
  }

  std::string label_;
  std::vector<std::string> text_;
  char separator_ = ',';
  std::shared_ptr<SampleHead> head_;
  std::string first_text_, header_;  ///< the name of the text whose columns these are; header: none
  std::vector<std::string> names_;   ///< of the header
  std::vector<CsvColumn> columns_;
};

}  // namespace

std::unique_ptr<LineFormat> make_csv_lines(const SampleStreamSpec& spec) {
  return std::make_unique<CsvLines>(spec);
}

}  // namespace gossamer::optim
