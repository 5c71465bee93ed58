#include "csv_reader.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace gossamer::optim {
namespace {

constexpr std::size_t kBlock = 1U << 18;
constexpr std::size_t kMostRecord = 1U
                                    << 26;  // bytes; what is longer has no line breaks where they should be
constexpr std::size_t kMostShown = 40;

}  // namespace

CsvReader::CsvReader(const std::string& path) : file_(path) {
  more();
  if (buffer_.starts_with("\xEF\xBB\xBF")) buffer_.erase(0, 3);  // byte order mark
  find_separator();
}

void CsvReader::fail(std::size_t line, std::size_t column, const std::string& what) const {
  throw OptimError(file_.path() + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + what);
}

/// Appends a block to what is left; false at the end of the file.
bool CsvReader::more() {
  buffer_.erase(0, position_);
  position_ = 0;
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kBlock);
  const std::size_t got = file_.read({reinterpret_cast<std::uint8_t*>(buffer_.data()) + size, kBlock});
  buffer_.resize(size + got);
  return got > 0;
}

int CsvReader::peek() {
  if (position_ == buffer_.size() && !more()) return kEnd;
  if (buffer_[position_] == '\0')
    fail(line_, column_, "found a zero byte, expected text (UTF-8), plain or gzip");
  return static_cast<unsigned char>(buffer_[position_]);
}

int CsvReader::get() {
  const int c = peek();
  if (c == kEnd) return c;
  ++position_;
  ++column_;
  if (c == '\n') ++line_, column_ = 1;
  if (++record_bytes_ > kMostRecord)
    fail(line_, column_,
         "found more than " + std::to_string(kMostRecord) + " bytes in one row, expected line breaks");
  return c;
}

void CsvReader::skip_blanks() {
  for (int c = peek(); (c == ' ' || c == '\t' || c == '\r') && c != separator_; c = peek()) get();
}

void CsvReader::find_separator() {
  std::array<std::size_t, 3> counts{};
  constexpr std::string_view kSeparators = ",;\t", kMayFollow = "\r\n,;\t ";
  bool quoted = false;
  for (std::size_t i = 0; i < kMostRecord; ++i) {
    if (i == buffer_.size() && !more()) break;
    const char c = buffer_[i];
    if (c == '"') quoted = !quoted;
    if (c == '\0' || (c == '\n' && !quoted)) break;
    const bool line_goes_on = c == '\r' && !quoted && (i + 1 < buffer_.size() || more()) &&
                              kMayFollow.find(buffer_[i + 1]) == kMayFollow.npos;
    if (line_goes_on)
      fail(1, i + 1,
           "found a carriage return with text behind it, expected lines that end with a line feed; "
           "tr '\\r' '\\n' makes them of such as end with a carriage return alone");
    if (const std::size_t which = kSeparators.find(c); which != kSeparators.npos && !quoted) ++counts[which];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  separator_ = kSeparators[static_cast<std::size_t>(most - counts.begin())];
}

std::span<const CsvField> CsvReader::next() {
  while (peek() != kEnd) {
    std::size_t count = 0;
    record_bytes_ = 0;
    int end = separator_;
    for (; end == separator_; end = get()) {
      if (count == fields_.size()) fields_.emplace_back();
      read_field(fields_[count++]);
    }
    const bool empty_line = count == 1 && fields_[0].text.empty();
    if (!empty_line) return std::span(fields_).first(count);
  }
  return {};
}

void CsvReader::read_field(CsvField& field) {
  field.text.clear();
  skip_blanks();
  field.line = line_;
  field.column = column_;
  if (peek() == '"')
    read_quoted(field);
  else
    read_plain(field.text);
}

void CsvReader::read_quoted(CsvField& field) {
  get();
  for (int c = get(); c != '"' || peek() == '"'; c = get()) {
    if (c == kEnd) fail(field, "found a quote that is not closed, expected one more \"");
    if (c == '"') get();  // of two
    field.text.push_back(static_cast<char>(c));
  }
  skip_blanks();
  if (const int c = peek(); !ends_field(c))
    fail(line_, column_,
         "found " + shown(std::string(1, static_cast<char>(c))) +
             " after the closing quote, expected the next field (a quote within a field is written twice)");
}

void CsvReader::read_plain(std::string& text) {
  for (int c = peek(); !ends_field(c); c = peek()) {
    if (c == '"')
      fail(line_, column_,
           "found a quote within a field, expected quotes around the field and this one twice");
    text.push_back(static_cast<char>(get()));
  }
  text.erase(text.find_last_not_of(" \t\r") + 1);
}

std::string shown(std::string_view text) {
  std::size_t size = std::min(text.size(), kMostShown);
  while (size < text.size() && size > 0 && (text[size] & 0xC0) == 0x80) --size;  // no half of a character
  std::string out = "\"";
  for (const char c : text.substr(0, size)) {
    std::array<char, 8> escaped{c, '\0'};
    const auto code = static_cast<unsigned char>(c);
    if (code < ' ' || code == 0x7F) std::snprintf(escaped.data(), escaped.size(), "\\x%02x", code);
    out += escaped.data();
  }
  if (text.size() <= kMostShown) return out + "\"";
  return out + "...\" (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace gossamer::optim
