#include "gossamer/topology/formats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "graph_file.h"
#include "names.h"

namespace gossamer::topology {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 30;

struct Format {
  FileFormat listed;
  EdgeSpecs (*read)(const std::string&, Names);
  std::string (*write)(const MixingMatrix&, Names);
};
constexpr std::array kFormats{
    Format{{"edgelist", "txt edgelist edges", "one edge per line: from to [weight]; # comments"},
           read_edge_list,
           write_edge_list},
    Format{
        {"graphml", "graphml xml", "GraphML, as networkx and Gephi write it"}, read_graphml, write_graphml},
    Format{{"json", "json", "node-link JSON, as networkx and D3 write it"}, read_node_link, write_node_link},
    Format{{"metis", "metis graph",
            "METIS, Chaco: line i lists the neighbours of vertex i, from 1; no weights are written", false},
           read_metis,
           write_metis},
};

constexpr auto kListed = [] {
  std::array<FileFormat, kFormats.size()> listed{};
  for (std::size_t i = 0; i < kFormats.size(); ++i) listed[i] = kFormats[i].listed;
  return listed;
}();

const Format& format_named(std::string_view name) {
  std::array<std::string_view, kFormats.size()> names;
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    names[i] = kFormats[i].listed.name;
    if (names[i] == name) return kFormats[i];
  }
  throw GraphError(
      "graph file format '" + std::string(name) + "' is unknown: expected one of " + joined(names), name,
      strings(names));
}

const Format& format_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  if (dot == path.npos || path[dot] == '/') return kFormats.front();
  const std::string ending = " " + path.substr(dot + 1) + " ";
  for (const Format& format : kFormats)
    if ((" " + std::string(format.listed.endings) + " ").find(ending) != std::string::npos) return format;
  return kFormats.front();
}

}  // namespace

std::span<const FileFormat> file_format_table() { return kListed; }

EdgeSpecs read_graph(const std::string& path, Names names, std::string_view format) {
  return (format.empty() ? format_of(path) : format_named(format)).read(path, names);
}

std::string write_graph(const MixingMatrix& w, Names names, std::string_view format) {
  const Format& chosen = format_named(format);
  if (!names.empty() && names.size() != w.peers())
    throw GraphError(std::to_string(names.size()) + " names for " + std::to_string(w.peers()) +
                     " peers; expected one for each, or none for numbers");
  return chosen.write(w, names);
}

std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string result;
  std::array<char, 1 << 16> part{};
  while (file) {
    file.read(part.data(), part.size());
    result.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (result.size() > kLargestFile) throw GraphError(path + ": larger than 1 GiB; expected a graph file");
  }
  if (!file.is_open() || errno != 0)  // a folder can be opened, not read
    throw GraphError(path + ": cannot be read (" + std::strerror(errno) + "); expected a graph file");
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (result.starts_with(kMark)) result.erase(0, kMark.size());
  return result;
}

std::string cited(std::string_view found) {
  constexpr std::size_t kMost = 200, kShown = 60;
  if (found.size() <= kMost) return "'" + std::string(found) + "'";
  std::size_t size = kShown;
  while (size > 0 && (found[size] & 0xC0) == 0x80) --size;  // no half of a character
  return "'" + std::string(found.substr(0, size)) + "…' (" + std::to_string(found.size()) + " bytes)";
}

PeerId find_node(const std::string& place, std::string_view found, Names names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == found) return static_cast<PeerId>(i);
  PeerId id = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), id);
  if (error == std::errc() && end == found.data() + found.size() && id < names.size()) return id;
  const std::string numbers =
      names.empty() ? "but there are no peers" : "or a number from 0 to " + std::to_string(names.size() - 1);
  throw GraphError(place + ": found " + cited(found) + "; expected the name of a peer " + numbers, found,
                   {names.begin(), names.end()});
}

float to_weight(const std::string& place, std::string_view found) {
  double value = 0;  // wider than what is kept, so that 1e-50 reads as 0
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  if (error != std::errc() || end != found.data() + found.size() || !std::isfinite(static_cast<float>(value)))
    throw GraphError(place + ": found " + cited(found) + "; expected a weight, a finite number such as 0.5");
  return static_cast<float>(value);
}

std::string node_name(PeerId peer, Names names) { return names.empty() ? std::to_string(peer) : names[peer]; }

std::string weight_text(float weight) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), weight).ptr;
  return {text.data(), end};
}

}  // namespace gossamer::topology
