// Edge lists as networkx writes them: "0 1", "0 1 0.5", "0 1 {}", "0 1 {'weight': 0.5, 'color': 'red'}".
#include <cctype>
#include <sstream>

#include "graph_file.h"

namespace gossamer::topology {
namespace {

bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

class LineParser {
 public:
  LineParser(std::string place, std::string_view text, Names names)
      : place_(std::move(place)), text_(text.substr(0, text.find('#'))), names_(names) {}

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
      fail(end, "found " + cited(word("")) + " after the edge; expected the end of the line");
    return e;
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  void skip_blanks() {
    while (!at_end() && blank(text_[at_])) ++at_;
  }

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw GraphError(place(at) + ": " + what);
  }

  /// Up to the next blank or one of `ends`.
  std::string_view word(std::string_view ends) {
    const std::size_t from = at_;
    while (!at_end() && !blank(text_[at_]) && ends.find(text_[at_]) == ends.npos) ++at_;
    return text_.substr(from, at_ - from);
  }

  std::string place(std::size_t at) const { return place_ + ":" + std::to_string(at + 1); }

  PeerId node() {
    const std::size_t from = at_;
    return find_node(place(from), word(""), names_);
  }

  float number(std::string_view found) const {
    return to_weight(place(static_cast<std::size_t>(found.data() - text_.data())), found);
  }

  /// A Python dictionary; returns its 'weight', skips all else.
  std::optional<float> attributes() {
    std::optional<float> weight;
    const std::size_t from = at_++;
    for (skip_blanks(); at_end() || text_[at_] != '}'; skip_blanks()) {
      if (at_end()) fail(from, "found no end of '{'; expected {'weight': 0.5}");
      const std::string_view key = quoted();
      skip_blanks();
      if (at_end() || text_[at_] != ':') fail(at_, "expected ':' after " + cited(key));
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
  Names names_;
  std::size_t at_ = 0;
};

}  // namespace

EdgeSpecs read_edge_list(const std::string& path, Names names) {
  std::istringstream text(read_text(path));
  EdgeSpecs edges;
  std::string line;
  for (std::size_t number = 1; std::getline(text, line); ++number)
    if (const auto e = LineParser(path + ":" + std::to_string(number), line, names).edge())
      edges.push_back(*e);
  return edges;
}

std::string write_edge_list(const MixingMatrix& w, Names names) {
  std::string out;
  for_each_edge(w, [&](PeerId from, PeerId to, float weight) {
    out += node_name(from, names) + " " + node_name(to, names) + " " + weight_text(weight) + "\n";
  });
  return out;
}

}  // namespace gossamer::topology
