#include "names.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gossamer::optim {
namespace {

/// Insertions, deletions and replacements from a to b (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

void throw_unknown(std::string_view what, std::string_view name, std::span<const NamedHelp> known) {
  std::string message = std::string(what) + ": found \"" + std::string(name) + "\", expected one of ";
  const char* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(2, name.size() / 2) + 1;
  for (const NamedHelp& k : known) {
    message += (&k == known.data() ? "" : ", ") + std::string(k.name);
    const std::size_t distance = edit_distance(name, k.name);
    if (distance < least) least = distance, nearest = k.name;
  }
  if (nearest != nullptr) message += "; did you mean \"" + std::string(nearest) + "\"?";
  throw OptimError(message);
}

}  // namespace gossamer::optim
