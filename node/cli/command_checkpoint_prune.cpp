// gossamer checkpoint verify and prune: is what was saved whole, and what of it need not be kept.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "checkpoint_names.h"
#include "checkpoint_rounds.h"
#include "command_checkpoint.h"
#include "commands.h"
#include "flags.h"
#include "text.h"

namespace gossamer::node {

int verify_checkpoints(const CheckpointFlags& flags) {
  SavedRun run(flags.run);
  std::vector<std::string> damaged = run.problems();
  std::uint64_t files = 0, bytes = 0;
  for (const CheckpointEntry& entry : run.entries()) {
    std::string wrong = run.folder().damage(entry);
    if (!wrong.empty()) damaged.push_back(std::move(wrong));
    files += entry.files.size() + 1;
    bytes += entry.bytes();
  }
  for (const std::string& wrong : damaged) tell("gossamer: " + wrong);
  if (damaged.empty())
    fmt::print("{} files, {}, of {} checkpoints: all whole\n", files, bytes_text(static_cast<double>(bytes)),
               run.entries().size());
  else
    tell(
        fmt::format("gossamer: {} of {} checkpoints are damaged; a run goes on from the newest round that is "
                    "whole at all peers",
                    damaged.size(), run.entries().size() + run.problems().size()));
  return damaged.empty() ? kExitOk : kExitFailure;
}

namespace {

/// Complete rounds that are whole to the last bit: a former one must not go for one that is none.
class WholeRounds {
 public:
  explicit WholeRounds(SavedRun& run) : run_(run), complete_(complete_rounds(run.entries())) {}

  /// Newest first.
  std::vector<CompleteRound> newest(std::size_t most) {
    std::vector<CompleteRound> found;
    for (std::size_t at = complete_.size(); at > 0 && found.size() < most; --at)
      if (whole(complete_[at - 1])) found.push_back(complete_[at - 1]);
    return found;
  }
  std::optional<CompleteRound> best() {
    std::vector<CompleteRound> left = complete_;
    while (const auto at = best_of(left)) {
      if (whole(left[*at])) return left[*at];
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(*at));
    }
    return std::nullopt;
  }

 private:
  bool whole(const CompleteRound& round) {
    const auto [known, first] = whole_.try_emplace({round.round, round.run}, true);
    if (!first) return known->second;
    for (const CheckpointEntry& entry : round.entries)
      if (const std::string wrong = run_.folder().damage(entry); !wrong.empty()) {
        tell("gossamer: " + wrong);
        known->second = false;
      }
    return known->second;
  }

  SavedRun& run_;
  std::vector<CompleteRound> complete_;
  std::map<std::pair<Round, std::uint64_t>, bool> whole_;
};

struct Removal {
  std::vector<CheckpointFolder::Place> checkpoints;
  std::vector<CheckpointFolder::Leftover> leftovers;
  std::uint64_t bytes = 0;
};

/// All up to the newest complete round but what is kept: later ones may still be under way.
Removal removal_of(SavedRun& run, Round newest, const std::set<std::pair<Round, std::uint64_t>>& kept) {
  Removal removal;
  std::set<CheckpointFolder::Place> stay;
  for (const CheckpointEntry& entry : run.entries())
    if (kept.contains({entry.head.round, entry.head.run})) stay.insert({entry.head.round, entry.head.peer});
  for (const CheckpointFolder::Place& place : run.folder().places()) {
    if (place.round > newest || stay.contains(place)) continue;
    removal.checkpoints.push_back(place);
    for (const std::string& name : run.storage().names(run.folder().path_of(place.round)))
      if (const auto file = parse_file_name(name); file && file->peer == place.peer)
        removal.bytes += run.storage().size(run.folder().path_of(place.round) / name);
  }
  for (const CheckpointFolder::Leftover& leftover : run.folder().leftovers()) {
    const auto file = parse_file_name(leftover.path.filename().string());
    const CheckpointFolder::Place place{leftover.round, file->peer};
    if (leftover.round > newest || std::ranges::count(removal.checkpoints, place) > 0) continue;
    removal.leftovers.push_back(leftover);
    removal.bytes += leftover.bytes;
  }
  return removal;
}

void carry_out(SavedRun& run, const Removal& removal) {
  for (const auto& [round, peer] : removal.checkpoints) run.folder().remove(round, peer);
  for (const CheckpointFolder::Leftover& leftover : removal.leftovers) run.folder().remove(leftover);
}

}  // namespace

int prune_checkpoints(const CheckpointFlags& flags) {
  SavedRun run(flags.run);
  run.tell_problems();
  WholeRounds whole(run);
  std::set<std::pair<Round, std::uint64_t>> kept;
  std::vector<std::string> kept_names;
  for (const CompleteRound& round : whole.newest(flags.keep)) {
    kept.insert({round.round, round.run});
    kept_names.push_back(std::to_string(round.round));
  }
  if (kept.empty()) {
    fmt::print("no round is whole at all peers: nothing is removed\n");
    return kExitOk;
  }
  const Round newest = kept.rbegin()->first;
  if (const auto best = whole.best(); best && kept.insert({best->round, best->run}).second)
    kept_names.push_back(fmt::format("{} (the best)", best->round));
  const Removal removal = removal_of(run, newest, kept);
  const char* verb = flags.dry_run ? "would remove" : "removed";
  if (!flags.dry_run) carry_out(run, removal);
  for (const auto& [round, peer] : removal.checkpoints) fmt::print("{} round {} of {}\n", verb, round, peer);
  for (const CheckpointFolder::Leftover& leftover : removal.leftovers)
    fmt::print("{} {}\n", verb, leftover.path.string());
  fmt::print("{} {} checkpoints and {} files that were left over, {}; kept rounds: {}\n", verb,
             removal.checkpoints.size(), removal.leftovers.size(),
             bytes_text(static_cast<double>(removal.bytes)), names_text(kept_names));
  return kExitOk;
}

}  // namespace gossamer::node
