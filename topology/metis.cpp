// METIS graph files (Karypis, "METIS manual", section 4.1.1): a header "n m [fmt [ncon]]" of vertices and
// undirected edges, then a line for each vertex, which are counted from 1. fmt is three digits: vertex sizes,
// vertex weights, edge weights are there; % starts a comment line. A vertex without neighbours has an empty
// line.
#include <algorithm>
#include <charconv>
#include <map>

#include "graph_file.h"

namespace gossamer::topology {
namespace {

class Metis {
 public:
  Metis(std::string path, std::string text, Names names)
      : path_(std::move(path)), text_(std::move(text)), names_(names) {}

  EdgeSpecs edges() {
    header();
    EdgeSpecs edges;
    for (std::uint64_t vertex = 1; vertex <= vertices_; ++vertex) {
      if (!next_line())
        fail(0, "found " + std::to_string(vertex - 1) + " lines of vertices; expected " +
                    std::to_string(vertices_));
      for (std::uint64_t skipped = 0; skipped < before_; ++skipped)
        number("a size or weight of the vertex", 0);
      neighbours(static_cast<PeerId>(vertex - 1), edges);
    }
    while (next_line()) {
      skip_blanks();
      if (at_ < line_.size()) fail(at_, "found a line behind the last vertex");
    }
    check_both_ways(edges);
    return edges;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw GraphError(path_ + ":" + std::to_string(number_) + ":" + std::to_string(at + 1) + ": " + what);
  }

  /// The next line that is no comment.
  bool next_line() {
    while (from_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', from_), text_.size());
      line_ = std::string_view(text_).substr(from_, end - from_);
      from_ = end + 1;
      at_ = 0;
      ++number_;
      if (!line_.starts_with('%')) return true;
    }
    return false;
  }
  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }
  bool more() {
    skip_blanks();
    return at_ < line_.size();
  }
  std::uint64_t number(const std::string& what, std::uint64_t least) {
    skip_blanks();
    const std::size_t from = at_;
    while (at_ < line_.size() && line_[at_] != ' ' && line_[at_] != '\t' && line_[at_] != '\r') ++at_;
    const std::string_view word = line_.substr(from, at_ - from);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error != std::errc() || end != word.data() + word.size() || value < least)
      fail(from, "found " + cited(word) + "; expected " + what);
    return value;
  }

  void header() {
    if (!next_line()) fail(0, "found no header; expected 'vertices edges [fmt [ncon]]'");
    vertices_ = number("the number of vertices", 0);
    edges_ = number("the number of edges", 0);
    const std::uint64_t format = more() ? number("fmt, three digits of 0 and 1", 0) : 0;
    const std::uint64_t constraints = more() ? number("ncon, the weights of each vertex", 1) : 1;
    if (format % 10 > 1 || format / 10 % 10 > 1 || format > 111)
      fail(0, "found fmt " + std::to_string(format) + "; expected three digits of 0 and 1");
    before_ = format / 100 + (format / 10 % 10 == 1 ? constraints : 0);
    weighted_ = format % 10 == 1;
    if (vertices_ != names_.size())
      fail(0, "found " + std::to_string(vertices_) + " vertices; expected " + std::to_string(names_.size()) +
                  ", one for each peer");
  }

  void neighbours(PeerId vertex, EdgeSpecs& edges) {
    while (more()) {
      const std::size_t at = at_;
      const std::uint64_t other = number("a vertex from 1", 1);
      if (other > vertices_)
        fail(at, "found vertex " + std::to_string(other) + "; there are " + std::to_string(vertices_));
      std::optional<float> weight;
      if (weighted_) weight = static_cast<float>(number("the weight of the edge, a whole number from 1", 1));
      edges.push_back({vertex, static_cast<PeerId>(other - 1), weight});
    }
  }

  /// Every edge stands in the lines of both of its ends, and the header counts it once.
  void check_both_ways(const EdgeSpecs& edges) {
    std::map<std::pair<PeerId, PeerId>, std::optional<float>> listed;
    for (const auto& e : edges) listed.emplace(std::pair(e.from, e.to), e.weight);
    for (const auto& e : edges) {
      const auto reverse = listed.find({e.to, e.from});
      if (reverse == listed.end() || reverse->second != e.weight)
        throw GraphError(
            path_ + ": vertex " + std::to_string(e.from + 1) + " lists " + std::to_string(e.to + 1) +
            (reverse == listed.end() ? ", which does not list it" : ", which lists it with another weight") +
            "; a METIS graph is undirected");
    }
    if (edges.size() != 2 * edges_)
      throw GraphError(path_ + ": found " + std::to_string(edges.size()) + " ends of edges; the header's " +
                       std::to_string(edges_) + " edges have " + std::to_string(2 * edges_));
  }

  std::string path_, text_;
  Names names_;
  std::string_view line_;
  std::size_t from_ = 0, at_ = 0, number_ = 0;
  std::uint64_t vertices_ = 0, edges_ = 0, before_ = 0;
  bool weighted_ = false;
};

}  // namespace

EdgeSpecs read_metis(const std::string& path, Names names) {
  return Metis(path, read_text(path), names).edges();
}

std::string write_metis(const MixingMatrix& w, Names) {
  if (!w.symmetric())
    throw GraphError("a METIS file cannot hold a directed graph; use graphml, json or edgelist");
  std::size_t ends = 0;
  std::string lines;
  for (PeerId i = 0; i < w.peers(); ++i) {
    std::string line;
    for (const Edge& e : w.in(i)) line += (line.empty() ? "" : " ") + std::to_string(e.peer + 1);
    ends += w.in(i).size();
    lines += line + "\n";
  }
  return std::to_string(w.peers()) + " " + std::to_string(ends / 2) + "\n" + lines;
}

}  // namespace gossamer::topology
