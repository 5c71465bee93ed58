#include "difference.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text.h"

namespace gossamer::node {
namespace {

/// The lines of a to_toml text as (full key, value), peers and links numbered.
std::vector<std::pair<std::string, std::string>> lines_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::map<std::string, std::size_t> tables;
  std::string section;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("[[")) {
      const std::string name = line.substr(2, line.find(']') - 2);
      section = name + "[" + std::to_string(tables[name]++) + "].";
    } else if (line.starts_with("[")) {
      section = line.substr(1, line.find(']') - 1) + ".";
    } else if (const std::size_t equals = line.find(" = "); equals != std::string::npos) {
      lines.emplace_back(section + line.substr(0, equals), line.substr(equals + 3));
    }
  }
  return lines;
}

}  // namespace

std::vector<KeyDifference> differences(const std::string& here, const std::string& there) {
  const auto ours = lines_of(here), theirs = lines_of(there);
  const std::map<std::string, std::string> mine(ours.begin(), ours.end()),
      other(theirs.begin(), theirs.end());
  std::vector<KeyDifference> all;
  const auto value_in = [](const auto& lines, const std::string& key) {
    const auto at = lines.find(key);
    return at == lines.end() ? std::string("nothing") : at->second;
  };
  for (const auto& [key, value] : ours)
    if (const std::string there_is = value_in(other, key); there_is != value)
      all.push_back({key, value, there_is});
  for (const auto& [key, value] : theirs)
    if (!mine.contains(key)) all.push_back({key, "nothing", value});
  return all;
}

std::string first_difference(const std::string& here, const std::string& there) {
  const auto ours = lines_of(here), theirs = lines_of(there);
  const auto value_of = [](const auto& lines, const std::string& key) -> std::string {
    const auto it = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == key; });
    return it == lines.end() ? "nothing" : it->second;
  };
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) continue;
    // Where the keys differ, one side lacks a line; the key is the one that the other side does not have
    // here.
    const bool from_ours = i < ours.size() && (i >= theirs.size() || ours[i].first == theirs[i].first ||
                                               value_of(theirs, ours[i].first) == "nothing");
    const std::string& key = from_ours ? ours[i].first : theirs[i].first;
    return shortened(key) + ": here " + shortened(value_of(ours, key)) + ", there " +
           shortened(value_of(theirs, key));
  }
  return "";
}

}  // namespace gossamer::node
