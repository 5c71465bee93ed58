#include "names.h"

#include <algorithm>
#include <string>
#include <vector>

namespace gossamer::optim {

void throw_unknown(std::string_view what, std::string_view name, std::span<const NamedHelp> known) {
  std::string message = std::string(what) + ": found \"" + std::string(name) + "\", expected one of ";
  std::vector<std::string> names;
  for (const NamedHelp& k : known) {
    message += (names.empty() ? "" : ", ") + std::string(k.name);
    names.emplace_back(k.name);
  }
  throw OptimError(message, name, std::move(names));
}

namespace {

bool names_key(const NamedHelp& row, std::string_view key) {
  return (" " + std::string(row.reads) + " ").find(" " + std::string(key) + " ") != std::string::npos;
}

}  // namespace

bool reads(std::span<const NamedHelp> table, std::string_view name, std::string_view key) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const NamedHelp& r) { return name == r.name; });
  if (row == table.end()) return false;
  return names_key(*row, key) ||
         std::none_of(table.begin(), table.end(), [&](const NamedHelp& r) { return names_key(r, key); });
}

}  // namespace gossamer::optim
