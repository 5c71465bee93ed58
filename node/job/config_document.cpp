#include "config_document.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "gossamer/node/job.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

constexpr std::uintmax_t kLargestFile = 64u << 20;
constexpr std::size_t kMostParts = 16;  // of a key a.b.c

/// Behind the string whose opening quote is at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool many_lines = text.substr(at).starts_with(three);
  for (at += many_lines ? 3 : 1; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"')
      ++at;
    else if (many_lines ? text.substr(at).starts_with(three) : text[at] == quote || text[at] == '\n')
      break;
  }
  at += many_lines ? 3 : 1;
  for (int i = 0; many_lines && i < 2 && at < text.size() && text[at] == quote; ++i) ++at;  // """a"""""
  return at;
}

/// The line, from 1, of a key of more than kMostParts; 0 where there is none. The parser, and whatever goes
/// through its tables, recurses over the parts; it has a limit to nested brackets alone.
std::size_t line_of_long_key(std::string_view text) {
  std::size_t dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_string(text, at);
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (c == '.' && ++dots >= kMostParts)
      return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + at, '\n'));
    if (std::string_view("=,[]{}\n#").find(c) != std::string_view::npos) dots = 0;
    ++at;
  }
  return 0;
}

std::string position(const std::string& path, const toml::source_position& at) {
  if (at.line == 0) return path;
  return path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

Value convert(const toml::node& node, const std::string& path);

void convert_table(const toml::table& table, const std::string& path, Value& value) {
  // The parser sorts keys by name; messages should name the first wrong key of the file.
  struct Placed {
    toml::source_position at;
    Entry entry;
  };
  std::vector<Placed> placed;
  for (auto&& [key, child] : table) {
    const toml::source_position at = key.source().begin;
    placed.push_back({at, {std::string(key.str()), position(path, at), convert(child, path)}});
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
  });
  for (Placed& p : placed) value.entries.push_back(std::move(p.entry));
}

Value convert(const toml::node& node, const std::string& path) {
  Value value;
  value.origin = position(path, node.source().begin);
  if (const auto* table = node.as_table()) {
    convert_table(*table, path, value);
  } else if (const auto* list = node.as_array()) {
    value.kind = Value::Kind::kList;
    for (const toml::node& item : *list) value.items.push_back(convert(item, path));
  } else if (const auto* string = node.as_string()) {
    value.kind = Value::Kind::kString;
    value.text = string->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::kInteger;
    value.integer = integer->get();
    value.number = static_cast<double>(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = Value::Kind::kNumber;
    value.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::kBoolean;
    value.boolean = boolean->get();
  } else {
    value.kind = Value::Kind::kDate;
  }
  return value;
}

/// 64.0 is a number that is no integer to a key.
std::string as_written(double number) {
  const std::string text = number_text(number);
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

std::string read_text(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw ConfigError(path + ": no such file; expected a TOML file (path relative to " +
                      std::filesystem::current_path(error).string() + ")");
  if (std::filesystem::is_directory(status)) throw ConfigError(path + ": is a folder; expected a TOML file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read: " + std::strerror(errno));
  std::string result;
  std::array<char, 1 << 16> part{};
  do {  // of a device or a pipe nothing else tells how much comes
    file.read(part.data(), part.size());
    result.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (result.size() > kLargestFile) throw ConfigError(path + ": larger than 64 MiB; expected a TOML file");
  } while (file);
  if (result.find('\0') != std::string::npos)
    throw ConfigError(path + ": is no text (it holds zero bytes); expected a TOML file");
  return result;
}

void mark_override(Value& value, const std::string& origin, const std::string& text) {
  value.origin = origin;
  value.from_override = true;
  if (!value.is(Value::Kind::kString)) value.text = text;
  for (Value& item : value.items) mark_override(item, origin, item.text);
  for (Entry& entry : value.entries) {
    entry.origin = origin;
    mark_override(entry.value, origin, entry.value.text);
  }
}

Value parse_value(const std::string& text) {
  // A line break would let one override smuggle in further keys.
  if (text.find('\n') == std::string::npos && line_of_long_key(text) == 0) {
    try {
      const toml::table table = toml::parse("value = " + text);
      if (table.size() == 1)
        if (const toml::node* node = table.get("value")) return convert(*node, "");
    } catch (const toml::parse_error&) {
      // No TOML: a bare string.
    }
  }
  Value value;
  value.kind = Value::Kind::kString;
  value.text = text;
  return value;
}

}  // namespace

const Entry* Value::find(std::string_view key) const {
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return it == entries.end() ? nullptr : &*it;
}

Value read_document(const std::string& path) {
  const std::string text = read_text(path);
  if (const std::size_t line = line_of_long_key(text))
    throw ConfigError(path + ":" + std::to_string(line) + ": a key has more than " +
                      std::to_string(kMostParts) + " parts; expected keys such as exchange.codec");
  try {
    return convert(toml::parse(text, path), path);
  } catch (const toml::parse_error& error) {
    const std::string what(error.description());
    const bool open = what.find("parsing string") != what.npos &&
                      (what.find("control characters") != what.npos || what.find("end-of-file") != what.npos);
    throw ConfigError(position(path, error.source().begin) + ": not valid TOML: " + what +
                      (open ? "; is the closing quote missing?" : ""));
  }
}

Value parse_override(const std::string& text) {
  const std::string origin = "--set " + text;
  const std::size_t equals = text.find('=');
  std::string key = text.substr(0, equals);
  const auto trim = [](std::string& s) {
    s.erase(0, std::min(s.find_first_not_of(' '), s.size()));
    s.erase(s.find_last_not_of(' ') + 1);
  };
  trim(key);
  if (equals == std::string::npos || key.empty())
    throw ConfigError(origin + ": expected KEY=VALUE, for example exchange.codec=dense");
  if (std::count(key.begin(), key.end(), '.') >= static_cast<std::ptrdiff_t>(kMostParts))
    throw ConfigError("--set " + shortened(text) + ": the key has more than " + std::to_string(kMostParts) +
                      " parts; expected one such as exchange.codec");
  std::string words = text.substr(equals + 1);
  trim(words);
  Value value = parse_value(words);
  mark_override(value, origin, words);
  while (!key.empty()) {  // wraps from the last part of the key outwards
    const std::size_t dot = key.rfind('.');
    Value table;
    table.origin = origin;
    table.from_override = true;
    table.entries.push_back({dot == std::string::npos ? key : key.substr(dot + 1), origin, std::move(value)});
    value = std::move(table);
    key = dot == std::string::npos ? "" : key.substr(0, dot);
  }
  return value;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBoolean:
      return value.boolean ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.integer);
    case Value::Kind::kNumber:
      return as_written(value.number);
    case Value::Kind::kString:
      return "the string " + in_quotes(shortened(value.text));
    case Value::Kind::kList:
      return value.items.empty() ? "an empty list" : "a list";
    case Value::Kind::kTable:
      return "a table";
    case Value::Kind::kDate:
      return "a date or time";
  }
  return "a value";
}

}  // namespace gossamer::node::config
