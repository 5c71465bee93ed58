#include "link_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "config_document.h"
#include "config_fields.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

using Words = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Words cells_of(const std::string& line) {
  Words cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(trimmed(cell));
  if (!line.empty() && line.back() == ',') cells.emplace_back();
  return cells;
}

/// The matrices of a file, line by line, turned into links.
class Matrices {
 public:
  explicit Matrices(std::string path) : path_(std::move(path)) {}

  LinkTableFile read() {
    std::ifstream in(path_);
    if (!in) throw ConfigError(path_ + ": cannot be read");
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (!trimmed(line).empty()) take(cells_of(line));
    }
    if (names_.empty())
      throw ConfigError(path_ + ": no matrix; expected a first line such as bandwidth,alpha,beta");
    for (auto& [pair, link] : links_) table_.links.push_back(std::move(link));
    return std::move(table_);
  }

 private:
  std::string here() const { return path_ + ":" + std::to_string(line_); }

  void take(const Words& cells) {
    if (cells[0] == "bandwidth" || cells[0] == "latency" || cells[0] == "uplink") {
      what_ = cells[0];
      names_.assign(cells.begin() + 1, cells.end());
      values_.clear();
      return;
    }
    if (names_.empty())
      throw ConfigError(here() + ": the first word is " + in_quotes(shortened(cells[0])) +
                        "; expected 'bandwidth', 'latency' or 'uplink', and then the names of the peers");
    if (cells.size() != names_.size() + 1)
      throw ConfigError(here() + ": the row of " + in_quotes(shortened(cells[0])) + " has " +
                        std::to_string(cells.size() - 1) + " values; expected " +
                        std::to_string(names_.size()) + ", one for each name in the matrix's first line");
    if (what_ == "uplink") return take_uplinks(cells);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!cells[i + 1].empty() && names_[i] != cells[0]) put(cells[0], names_[i], cells[i + 1]);
  }

  void take_uplinks(const Words& cells) {
    if (cells[0] != "all")
      throw ConfigError(here() + ": the row of uplinks begins with " + in_quotes(shortened(cells[0])) +
                        "; expected one row, which begins with 'all'");
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!cells[i + 1].empty()) {
        PeerDraft& peer = table_.peers.emplace_back();
        peer.origin = here();
        peer.entry.name = names_[i];
        peer.entry.uplink = checked(
            cells[i + 1], "uplink of " + in_quotes(shortened(names_[i])) + " is " + shortened(cells[i + 1]));
      }
  }

  void put(const std::string& from, const std::string& to, const std::string& text) {
    const std::string what = what_ + " from " + in_quotes(shortened(from)) + " to " +
                             in_quotes(shortened(to)) + " is " + shortened(text);
    const double value = checked(text, what);
    if (const auto back = values_.find({to, from});
        back != values_.end() && std::abs(back->second.value - value) > 1e-9 * value)
      throw ConfigError(here() + ": " + what + ", and at line " + std::to_string(back->second.line) + " " +
                        number_text(back->second.value) +
                        " the other way; a link is the same in both directions: expected the smaller "
                        "bandwidth or the larger latency in both places");
    if (!values_.insert({{from, to}, {value, line_}}).second)
      throw ConfigError(here() + ": " + what + ", which stands there already; expected one row for a peer");
    LinkDraft& link = links_[std::minmax(from, to)];
    if (link.between.empty()) {
      link.between = {from, to};
      link.origin = here();
    }
    (latency() ? link.latency : link.bandwidth) = value;
  }

  bool latency() const { return what_ == "latency"; }

  double checked(const std::string& text, const std::string& what) const {
    const double value = number(text).value_or(-1);
    if (!std::isfinite(value) || value < 0 || (!latency() && value == 0))
      throw ConfigError(here() + ": " + what +
                        (latency() ? "; expected seconds of at least 0, or a text such as 5ms"
                                   : "; expected bit/s above 0, or a text such as 100mbit"));
    return value;
  }

  std::optional<double> number(const std::string& text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
    return latency() ? parse_duration(text) : parse_bandwidth(text);
  }

  struct Cell {
    double value;
    std::size_t line;
  };
  std::string path_;
  std::size_t line_ = 0;
  std::string what_;  ///< the matrix: bandwidth, latency, uplink
  Words names_;
  std::map<std::pair<std::string, std::string>, Cell> values_;  ///< of this matrix
  std::map<std::pair<std::string, std::string>, LinkDraft> links_;
  LinkTableFile table_;
};

}  // namespace

LinkTableFile read_links(const std::string& path) {
  if (path.ends_with(".csv")) return Matrices(path).read();
  const Value document = read_document(path);
  for (const Entry& entry : document.entries)
    if (entry.key != "link" && entry.key != "peer")
      throw ConfigError(
          entry.origin + ": found " + in_quotes(entry.key) +
          "; expected a table of links, which holds [[link]] tables, and [[peer]] tables with uplinks, only");
  Draft draft;
  read_keys(document, {.job_keys = false}, draft);
  for (const PeerDraft& peer : draft.peers)
    if (peer.entry.name.empty() || !peer.entry.uplink || !peer.entry.address.empty())
      throw ConfigError(peer.origin +
                        ": a [[peer]] of a table of links says what it sends to all others at once; expected "
                        "name = \"…\" and uplink = \"20mbit\" alone");
  return {std::move(draft.links), std::move(draft.peers)};
}

}  // namespace gossamer::node::config
