#pragma once
// Records of separated values as RFC 4180 defines them: a field in double quotes may hold separators, line
// breaks and doubled quotes; any other field holds no quote. Beyond the RFC: lines may end in LF alone; the
// separator (comma, semicolon, tab) is the one most frequent outside quotes in the first line; blanks around
// a field do not belong to it, unless within its quotes; empty lines are skipped.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file.h"

namespace gossamer::optim {

struct CsvField {
  std::string text;          ///< without the quotes around it, doubled ones single
  std::size_t line, column;  ///< from 1, of its first byte
};

/// Reads a file, plain or gzip, record by record; holds one record at a time. Errors are OptimErrors that
/// begin with file:line:column.
class CsvReader {
 public:
  explicit CsvReader(const std::string& path);
  /// The next record's fields, valid until the next call; empty at the end of the file.
  std::span<const CsvField> next();
  [[noreturn]] void fail(std::size_t line, std::size_t column, const std::string& what) const;
  [[noreturn]] void fail(const CsvField& at, const std::string& what) const {
    fail(at.line, at.column, what);
  }

 private:
  static constexpr int kEnd = -1;
  bool more();
  int peek();
  int get();
  bool ends_field(int c) const { return c == kEnd || c == '\n' || c == separator_; }
  void skip_blanks();
  void find_separator();
  void read_field(CsvField& field);
  void read_quoted(CsvField& field);
  void read_plain(std::string& text);

  InputFile file_;
  std::string buffer_;
  std::size_t position_ = 0;  ///< in buffer_, of the next byte
  std::size_t line_ = 1, column_ = 1, record_bytes_ = 0;
  char separator_ = 0;
  std::vector<CsvField> fields_;
};

/// For messages: the text in quotes, at most 40 bytes of it, control characters escaped.
std::string shown(std::string_view text);

}  // namespace gossamer::optim
