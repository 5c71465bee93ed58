// Edge lists as networkx writes them: "0 1", "0 1 0.5", "0 1 {}", "0 1 {'weight': 0.5, 'color': 'red'}".
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "gossamer/topology/schedule.h"
#include "names.h"

namespace gossamer::topology {
namespace {

bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

class LineParser {
 public:
  LineParser(std::string place, std::string_view text, std::span<const std::string> peer_names)
      : place_(std::move(place)), text_(text.substr(0, text.find('#'))), names_(peer_names) {}

  std::optional<GraphSpec::EdgeSpec> edge() {
    skip_blanks();
    if (at_end()) return std::nullopt;
    GraphSpec::EdgeSpec e{node(), 0, std::nullopt};
    skip_blanks();
    if (at_end())
      fail(at_, "found one node; expected an edge: 'from to', 'from to weight' or 'from to {...}'");
    e.to = node();
    skip_blanks();
    if (!at_end()) e.weight = text_[at_] == '{' ? attributes() : number(word(""));
    skip_blanks();
    if (const std::size_t end = at_; !at_end())
      fail(end, "found '" + std::string(word("")) + "' after the edge; expected the end of the line");
    return e;
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  void skip_blanks() {
    while (!at_end() && blank(text_[at_])) ++at_;
  }

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw GraphError(place_ + ":" + std::to_string(at + 1) + ": " + what);
  }

  /// Up to the next blank or one of `ends`.
  std::string_view word(std::string_view ends) {
    const std::size_t from = at_;
    while (!at_end() && !blank(text_[at_]) && ends.find(text_[at_]) == ends.npos) ++at_;
    return text_.substr(from, at_ - from);
  }

  /// A peer's name, which comes first, or its number.
  PeerId node() {
    const std::size_t from = at_;
    const std::string_view found = word("");
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == found) return static_cast<PeerId>(i);
    PeerId id = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), id);
    if (error == std::errc() && end == found.data() + found.size() && id < names_.size()) return id;
    const std::vector<std::string_view> known(names_.begin(), names_.end());
    const std::string numbers = names_.empty() ? "but there are no peers"
                                               : "or a number from 0 to " + std::to_string(names_.size() - 1);
    fail(from, "found '" + std::string(found) + "'; expected the name of a peer " + numbers +
                   did_you_mean(found, known));
  }

  float number(std::string_view found) const {
    double value = 0;  // wider than what is kept, so that 1e-50 reads as 0
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() ||
        !std::isfinite(static_cast<float>(value)))
      fail(static_cast<std::size_t>(found.data() - text_.data()),
           "found '" + std::string(found) + "'; expected a weight, a finite number such as 0.5");
    return static_cast<float>(value);
  }

  /// A Python dictionary; returns its 'weight', skips all else.
  std::optional<float> attributes() {
    std::optional<float> weight;
    const std::size_t from = at_++;
    for (skip_blanks(); at_end() || text_[at_] != '}'; skip_blanks()) {
      if (at_end()) fail(from, "found no end of '{'; expected {'weight': 0.5}");
      const std::string_view key = quoted();
      skip_blanks();
      if (at_end() || text_[at_] != ':') fail(at_, "expected ':' after '" + std::string(key) + "'");
      ++at_;
      skip_blanks();
      if (key == "weight")
        weight = number(word(",}"));
      else
        skip_value();
      skip_blanks();
      if (!at_end() && text_[at_] == ',')
        ++at_;
      else if (!at_end() && text_[at_] != '}')
        fail(at_, "expected ',' or '}'");
    }
    ++at_;
    return weight;
  }

  std::string_view quoted() {
    const std::size_t from = at_;
    const char quote = text_[at_];
    if (quote != '\'' && quote != '"') fail(from, "expected a name in quotes, as in {'weight': 0.5}");
    for (++at_; !at_end() && text_[at_] != quote; ++at_)
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    if (at_end()) fail(from, "found no closing quote");
    return text_.substr(from + 1, at_++ - from - 1);
  }

  /// Up to the ',' or '}' that ends it, over nested brackets and strings.
  void skip_value() {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    for (int depth = 0; !at_end() && !(depth == 0 && (text_[at_] == ',' || text_[at_] == '}'));) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        quoted();
        continue;
      }
      if (kOpen.find(c) != kOpen.npos) ++depth;
      if (kClose.find(c) != kClose.npos) --depth;
      ++at_;
    }
  }

  std::string place_;  // path:line
  std::string_view text_;
  std::span<const std::string> names_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<GraphSpec::EdgeSpec> read_edge_list(const std::string& path,
                                                std::span<const std::string> peer_names) {
  errno = 0;
  std::ifstream file(path);
  std::vector<GraphSpec::EdgeSpec> edges;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number)
    if (const auto e = LineParser(path + ":" + std::to_string(number), line, peer_names).edge())
      edges.push_back(*e);
  if (!file.is_open() || file.bad())
    throw GraphError(path + ": cannot be read (" + std::strerror(errno) +
                     "); expected a file with one edge per line");
  return edges;
}

}  // namespace gossamer::topology
