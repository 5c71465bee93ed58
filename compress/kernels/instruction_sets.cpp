#include "gossamer/compress/instruction_sets.h"

#include <algorithm>
#include <cctype>

#include "gossamer/compress/codec.h"
#include "targets.h"

#include <hwy/highway.h>

namespace gossamer::compress {
namespace {

std::string name_of(std::int64_t target) {
  std::string name = hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

/// One bit each; a better one has a lower bit.
std::vector<std::int64_t> targets() {
  hwy::SetSupportedTargetsForTest(0);
  std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  std::sort(all.begin(), all.end());
  return all;
}

void use(std::int64_t allowed) {
  hwy::SetSupportedTargetsForTest(allowed);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : targets()) names.push_back(name_of(target));
  return names;
}

void limit_instruction_set(std::string_view name) {
  std::int64_t allowed = 0;
  std::string known;
  bool found = name.empty();
  for (const std::int64_t target : targets()) {
    known += (known.empty() ? "" : ", ") + name_of(target);
    found = found || name_of(target) == name;
    if (found && !name.empty()) allowed |= target;
  }
  use(found ? allowed : 0);
  if (!found) throw CodecError("no instruction set \"" + std::string(name) + "\" here; there are: " + known);
}

}  // namespace gossamer::compress
