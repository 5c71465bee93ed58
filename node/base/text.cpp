#include "text.h"

#include <boost/locale/utf.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

namespace gossamer::node {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

using Code = std::uint32_t;  ///< of a Unicode character
constexpr Code kNoCode = 0xffffffff;

/// Moves beyond one character, or beyond one byte that belongs to none.
Code next_code(std::string_view::iterator& at, std::string_view::iterator end) {
  const auto begin = at;
  const Code code = boost::locale::utf::utf_traits<char>::decode(at, end);
  if (boost::locale::utf::is_valid_codepoint(code)) return code;
  at = begin + 1;
  return kNoCode;
}

bool is_control(Code code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

/// A unit is factor / divisor base units; two whole numbers, so that "5ms" is the double nearest to 0.005.
struct Unit {
  const char* name;
  double factor, divisor;
};
constexpr std::array<Unit, 5> kBandwidthUnits{
    {{"tbit", 1e12, 1}, {"gbit", 1e9, 1}, {"mbit", 1e6, 1}, {"kbit", 1e3, 1}, {"bit", 1, 1}}};
constexpr std::array<Unit, 6> kDurationUnits{
    {{"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1}, {"min", 60, 1}, {"h", 3600, 1}}};

constexpr std::array<Unit, 7> kCountUnits{{{"", 1, 1},
                                           {"k", 1e3, 1},
                                           {"m", 1e6, 1},
                                           {"g", 1e9, 1},
                                           {"ki", 1024, 1},
                                           {"mi", 1048576, 1},
                                           {"gi", 1073741824, 1}}};

std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string unit = lowered(text.substr(static_cast<std::size_t>(end - text.data())));
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  for (const Unit& u : units)
    if (unit == u.name) return number * u.factor / u.divisor;
  return std::nullopt;
}

template <class Float>
std::string shortest(Float value) {
  std::array<char, 64> buffer{};
  const Float size = std::fabs(value);
  const bool plain = size == 0 || (size >= static_cast<Float>(1e-5) && size < static_cast<Float>(1e15));
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  return {buffer.data(), result.ptr};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string left = lowered(a), right = lowered(b);
  const std::size_t columns = right.size() + 1;
  std::vector<std::size_t> table((left.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return table[i * columns + j]; };
  for (std::size_t i = 0; i <= left.size(); ++i) {
    for (std::size_t j = 0; j <= right.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t change = left[i - 1] == right[j - 1] ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return table.back();
}

std::string nearest(std::string_view word, std::span<const std::string> names) {
  if (word.empty() || word.size() > 200) return "";
  std::string best;
  std::size_t best_distance = 1 + std::min<std::size_t>(word.size() / 3, 4);
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < best_distance || (distance == best_distance && best.empty() && distance < word.size())) {
      best = name;
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  const std::string start = lowered(word);
  for (const std::string& name : names)
    if (start.size() >= 2 && lowered(name).starts_with(start)) return name;
  return "";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : "; did you mean '" + name + "'?";
}

bool names_a_peer(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string join(std::span<const std::string> words, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += between;
    text += words[i];
  }
  return text;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = at;
    const Code code = next_code(at, text.end());
    if (code == '"' || code == '\\') {
      result += '\\';
      result += *begin;
    } else if (is_control(code)) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", code);
      result += escape.data();
    } else {
      result.append(begin, at);
    }
  }
  return result + "\"";
}

bool is_plain(std::string_view text) {
  for (auto at = text.begin(); at != text.end();) {
    const Code code = next_code(at, text.end());
    if (code == kNoCode || (is_control(code) && code != '\n' && code != '\t')) return false;
  }
  return true;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 200, kShown = 60;
  if (text.size() <= kMost) return std::string(text);
  std::size_t size = kShown;
  while (size > 0 && (text[size] & 0xC0) == 0x80) --size;  // no half of a character
  return std::string(text.substr(0, size)) + "… (" + std::to_string(text.size()) + " bytes)";
}

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

std::optional<double> parse_bandwidth(std::string_view text) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  return parse_quantity(text, kBandwidthUnits);
}

std::optional<double> parse_duration(std::string_view text) { return parse_quantity(text, kDurationUnits); }

SaveInterval parse_save_interval(std::string_view text) {
  if (text == "0") return {};
  constexpr double kMostRounds = 9e15;
  constexpr std::string_view kRounds = " rounds";
  std::string_view number = text;
  if (number.ends_with(kRounds)) number.remove_suffix(kRounds.size());
  const bool digits = !number.empty() &&
                      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && number.size() < 16) {
    std::uint64_t rounds = 0;
    for (const char c : number) rounds = 10 * rounds + static_cast<std::uint64_t>(c - '0');
    if (rounds > 0 && static_cast<double>(rounds) < kMostRounds) return {rounds, 0};
  }
  if (const auto seconds = parse_duration(text); seconds && *seconds > 0) return {0, *seconds};
  throw std::runtime_error("found " + in_quotes(shortened(text)) +
                           "; expected a number of rounds such as 500, a time such as \"10min\", or 0");
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  const auto count = parse_quantity(text, kCountUnits);
  if (!count || *count < 1 || *count > 0x1p40 || *count != std::floor(*count)) return std::nullopt;
  return static_cast<std::uint64_t>(*count);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  if (text.ends_with('B')) text.remove_suffix(1);
  const auto bytes = parse_quantity(text, kCountUnits);
  if (!bytes || *bytes < 0 || *bytes >= 0x1p53 || *bytes != std::floor(*bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

double rounded(double value, int digits) {
  if (!(value > 0)) return 0;
  const double exponent = std::floor(std::log10(value)) - digits + 1;
  const double grain = std::pow(10, std::abs(exponent));  // a whole number, so that few digits stay few
  return exponent < 0 ? std::round(value * grain) / grain : std::round(value / grain) * grain;
}
std::string bandwidth_text(double bits_per_second) {
  for (const Unit& unit : kBandwidthUnits) {
    if (bits_per_second < unit.factor) continue;
    std::string text = number_text(bits_per_second / unit.factor) + unit.name;
    if (parse_bandwidth(text) == bits_per_second) return text;
  }
  return number_text(bits_per_second) + "bit";
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3g %s", bytes, kUnits[unit]);
  return buffer.data();
}

std::string figure_text(double value) {
  if (std::isnan(value)) return "-";
  std::array<char, 64> buffer{};
  const double size = std::fabs(value);
  const char* format = size >= 1000 && size < 1e9 ? "%.0f" : "%.4g";
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

}  // namespace gossamer::node
