#include "text_coding.h"

#include <array>
#include <charconv>
#include <string>

#include "names.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kMostHashed = std::size_t{1} << 20;

constexpr std::array<Row<TextCoding::Kind>, 3> kCodings{{
    {{"refuse", "text in a feature column is an error"}, TextCoding::Kind::refuse},
    {{"onehot", "a feature for each text that the training rows of a column hold"}, TextCoding::Kind::onehot},
    {{"hash", "hash:N, N features a column, of which the hash of the text sets one"}, TextCoding::Kind::hash},
}};
constexpr auto kHelp = help_of(kCodings);

}  // namespace

std::span<const NamedHelp> text_coding_table() { return kHelp; }

TextCoding text_coding(std::string_view name) {
  const std::size_t colon = name.find(':');
  const bool has_argument = colon != std::string_view::npos;
  const auto& row = find_row(kCodings, "data text_as", name.substr(0, colon));
  if (row.make != TextCoding::Kind::hash) {
    if (has_argument)
      throw OptimError("data text_as: found \"" + std::string(name) + "\", expected \"" + row.entry.name +
                       "\" without an argument");
    return {row.make, 0};
  }
  const std::string_view text = has_argument ? name.substr(colon + 1) : std::string_view();
  std::size_t features = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), features);
  const bool number = has_argument && error == std::errc() && end == text.data() + text.size();
  if (!number || features < 2 || features > kMostHashed)
    throw OptimError("data text_as: found \"" + std::string(name) +
                     "\", expected \"hash:N\" with N from 2 to 1048576, e.g. hash:64");
  return {row.make, features};
}

void check_text_coding(std::string_view name) { text_coding(name); }

}  // namespace gossamer::optim
