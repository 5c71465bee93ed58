#include "names.h"

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

}  // namespace gossamer::optim
