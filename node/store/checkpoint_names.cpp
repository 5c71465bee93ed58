#include "checkpoint_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::string_view kRoundPrefix = "round-";
constexpr std::string_view kTemporaryPrefix = ".", kTemporarySuffix = ".tmp";

}  // namespace

std::string round_folder_name(Round round) { return fmt::format("{}{:012}", kRoundPrefix, round); }

std::optional<Round> round_of_folder(std::string_view name) {
  if (!name.starts_with(kRoundPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kRoundPrefix.size());
  Round round = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), round);
  if (error != std::errc() || end != digits.data() + digits.size() || round_folder_name(round) != name)
    return std::nullopt;
  return round;
}

std::string temporary_name(const std::string& name) {
  return fmt::format("{}{}{}", kTemporaryPrefix, name, kTemporarySuffix);
}

std::optional<CheckpointFileName> parse_file_name(std::string_view name) {
  CheckpointFileName parsed;
  if (name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix)) {
    parsed.temporary = true;
    name = name.substr(kTemporaryPrefix.size());
    name.remove_suffix(std::min(kTemporarySuffix.size(), name.size()));
  }
  for (const std::string_view suffix : {kParametersSuffix, kStateSuffix, kManifestSuffix}) {
    if (!name.ends_with(suffix)) continue;
    parsed.peer = name.substr(0, name.size() - suffix.size());
    parsed.suffix = suffix;
    if (names_a_peer(parsed.peer)) return parsed;
  }
  return std::nullopt;
}

}  // namespace gossamer::node
