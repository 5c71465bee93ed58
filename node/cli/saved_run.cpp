// What the commands on checkpoints know of a run's folder.
#include <fmt/format.h>

#include <map>
#include <set>

#include "checkpoint_names.h"
#include "command_checkpoint.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "run_checkpoints.h"
#include "text.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

fs::path find_folder(const std::string& run) {
  std::error_code unknown;
  if (!fs::is_directory(run, unknown))
    throw ConfigError(
        fmt::format("{}: no such folder; expected that of a run (runs/JOB-TIME), or its checkpoints", run));
  if (const auto folder = checkpoints_in(run)) return *folder;
  throw ConfigError(
      fmt::format("{}: holds no checkpoints; expected folders named {} there or in its checkpoints/", run,
                  round_folder_name(120)));
}

}  // namespace

SavedRun::SavedRun(const std::string& run) : folder_(storage_, find_folder(run)) {
  for (CheckpointEntry& entry : folder_.list(&problems_)) {
    std::string wrong = folder_.damage(entry, CheckpointFolder::Look::sizes);
    if (wrong.empty())
      entries_.push_back(std::move(entry));
    else
      problems_.push_back(std::move(wrong));
  }
}

void SavedRun::tell_problems() const {
  for (const std::string& problem : problems_) tell("gossamer: " + problem);
}

std::vector<SavedRound> SavedRun::rounds() const {
  std::map<std::pair<Round, std::uint64_t>, SavedRound> found;
  for (const CheckpointEntry& entry : entries_) {
    SavedRound& saved = found[{entry.head.round, entry.head.run}];
    saved.round = entry.head.round;
    saved.run = entry.head.run;
    saved.entries.push_back(entry);
  }
  std::vector<SavedRound> rounds;
  for (auto& [key, saved] : found) {
    std::set<std::string> present;
    for (const CheckpointEntry& entry : saved.entries) present.insert(entry.head.peer);
    for (const std::string& peer : saved.entries.front().head.peers)
      if (!present.contains(peer)) saved.missing.push_back(peer);
    rounds.push_back(std::move(saved));
  }
  return rounds;
}

std::string names_text(std::span<const std::string> names) {
  constexpr std::size_t kMost = 6;
  if (names.size() <= kMost) return join(names, ", ");
  return fmt::format("{} and {} more", join(names.first(kMost), ", "), names.size() - kMost);
}

}  // namespace gossamer::node
