#pragma once
// A Value is a part of a TOML file, which is read as a tree that knows where each value was written.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::node::config {

struct Entry;

/// One value; origin is "file:line:column" or "--set key=value", ready to stand in front of a message.
struct Value {
  enum class Kind { kBoolean, kInteger, kNumber, kString, kList, kTable, kDate };
  Kind kind = Kind::kTable;
  std::string origin;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  ///< of an integer too
  std::string text;   ///< the string; of an override the words as written, whatever the kind
  bool from_override = false;
  std::vector<Value> items;    ///< list
  std::vector<Entry> entries;  ///< table, in the order of writing

  bool is(Kind k) const { return kind == k; }
  const Entry* find(std::string_view key) const;  ///< null where the table has no such key
};

struct Entry {
  std::string key;
  std::string origin;  ///< of the key
  Value value;
};

/// Reads a TOML file. Throws ConfigError: no such file, a folder, no text, or a syntax error with its
/// position.
Value read_document(const std::string& path);

/// "a.b=value" as a table that holds only that; the value is TOML where it parses as such, else a bare
/// string. Throws ConfigError where there is no "=" or no key.
Value parse_override(const std::string& text);

/// 'the string "abc"', 'the integer 5', 'a list' …: what was found, for messages.
std::string describe(const Value& value);

}  // namespace gossamer::node::config
