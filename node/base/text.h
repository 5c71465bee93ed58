#pragma once
// These functions make words for messages: nearest names, quantities with units, numbers that read back.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::node {

/// Insertions, deletions, substitutions and swaps of neighbours that turn a into b (case counts for nothing).
std::size_t edit_distance(std::string_view a, std::string_view b);
/// The name nearest to word; empty where none is near enough to be meant.
std::string nearest(std::string_view word, std::span<const std::string> names);
/// "; did you mean 'nearest'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

/// As every peer's: 1 to 64 letters, digits, dots, underscores or hyphens, which also name files.
bool names_a_peer(std::string_view name);
constexpr const char* kPeerName = "1 to 64 letters, digits, dots, underscores or hyphens";

std::string join(std::span<const std::string> words, std::string_view between);
/// A TOML basic string: quotes around it, control characters, quotes and backslashes escaped.
std::string in_quotes(std::string_view text);
/// Valid UTF-8 without control characters; ends of lines and tabs may be. What comes from elsewhere and is
/// not plain must not reach a log or a terminal.
bool is_plain(std::string_view text);
/// Of others' text, for messages: where it is long its beginning and how many bytes there are.
std::string shortened(std::string_view text);
/// The shortest decimal that reads back to the same double.
std::string number_text(double value);
std::string number_text(float value);

/// "100mbit", "1.5 Gbit/s" in bit/s; empty where the text is none such. Decimal units: bit, kbit, mbit, gbit,
/// tbit.
std::optional<double> parse_bandwidth(std::string_view text);
/// "5ms", "0.5s" in seconds; ns, us, ms, s, min, h.
std::optional<double> parse_duration(std::string_view text);
/// "100" rounds, or a time; 0: never. Throws std::runtime_error: what was expected.
struct SaveInterval {
  std::uint64_t rounds = 0;
  double seconds = 0;
};
SaveInterval parse_save_interval(std::string_view text);
/// "64Ki", "25M", "1000": a whole number from 1 to 2^40; k, M, G are powers of 1000, Ki, Mi, Gi of 1024.
std::optional<std::uint64_t> parse_count(std::string_view text);
/// "256MB", "1.5 GiB", "4096": a whole number of bytes below 2^53; kB, MB, GB are powers of 1000, KiB, MiB,
/// GiB of 1024.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// To that many significant digits; 0 where the value is not above 0.
double rounded(double value, int digits);
/// "100mbit": the largest unit in which the number is at least 1; parse_bandwidth gives the same value back.
std::string bandwidth_text(double bits_per_second);
/// "1.5 kB", "235 kB", "12 B": decimal units, three digits; for people, not for reading back.
std::string bytes_text(double bytes);
/// Four significant digits and no exponent where it can be avoided, for columns of figures; "-" for NaN.
std::string figure_text(double value);

}  // namespace gossamer::node
