#include "names.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace gossamer::topology {
namespace {

/// Levenshtein: insertions, deletions and substitutions that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  std::size_t nearest = 2 + word.size() / 3;  // further away is another word, not a slip of the finger
  std::string_view best;
  for (const std::string_view name : known)
    if (const std::size_t distance = edit_distance(word, name);
        distance < nearest && distance < name.size()) {
      nearest = distance;
      best = name;
    }
  return best.empty() ? "" : "; did you mean '" + std::string(best) + "'?";
}

std::string joined(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

}  // namespace gossamer::topology
