// gossamer checkpoint: what a run has saved, whether it is whole, and what of it need not be kept.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "checkpoint.h"
#include "checkpoint_names.h"
#include "checkpoint_rounds.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "records.h"
#include "safetensors_format.h"
#include "text.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct CheckpointFlags {
  std::string run, peer;
  std::optional<Round> round;
  std::size_t keep = 0;
  bool json = false, job = false, dry_run = false;
};

/// What there is of one round of one run.
struct SavedRound {
  Round round = 0;
  std::uint64_t run = 0;
  std::vector<CheckpointEntry> entries;  ///< whose files have the right sizes
  std::vector<std::string> missing;      ///< peers
  bool complete() const { return missing.empty(); }
};

class SavedRun {
 public:
  explicit SavedRun(const std::string& run) : folder_(storage_, find_folder(run)) {
    for (CheckpointEntry& entry : folder_.list(&problems_)) {
      std::string wrong = folder_.damage(entry, CheckpointFolder::Look::sizes);
      if (wrong.empty())
        entries_.push_back(std::move(entry));
      else
        problems_.push_back(std::move(wrong));
    }
  }
  CheckpointFolder& folder() { return folder_; }
  const std::vector<CheckpointEntry>& entries() const { return entries_; }
  const std::vector<std::string>& problems() const { return problems_; }
  Storage& storage() { return storage_; }

  void tell_problems() const {
    for (const std::string& problem : problems_) tell("gossamer: " + problem);
  }

  std::vector<SavedRound> rounds() const {
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

 private:
  static fs::path find_folder(const std::string& run) {
    std::error_code unknown;
    const fs::path inner = fs::path(run) / "checkpoints";
    const fs::path folder = fs::is_directory(inner, unknown) ? inner : fs::path(run);
    if (!fs::is_directory(folder, unknown))
      throw ConfigError(
          fmt::format("{}: no such folder; expected that of a run (runs/JOB-TIME), or its checkpoints", run));
    for (const std::string& name : PosixStorage().names(folder))
      if (round_of_folder(name)) return folder;
    throw ConfigError(
        fmt::format("{}: holds no checkpoints; expected folders named {} there or in its checkpoints/", run,
                    round_folder_name(120)));
  }

  PosixStorage storage_;
  CheckpointFolder folder_;
  std::vector<CheckpointEntry> entries_;
  std::vector<std::string> problems_;
};

std::uint64_t total_bytes(const SavedRound& saved) {
  std::uint64_t bytes = 0;
  for (const CheckpointEntry& entry : saved.entries) bytes += entry.bytes();
  return bytes;
}

/// The round and run of the best; empty where no figures are known.
std::optional<std::pair<Round, std::uint64_t>> best_place(const std::vector<CompleteRound>& complete) {
  const auto best = best_of(complete);
  if (!best) return std::nullopt;
  return std::pair(complete[*best].round, complete[*best].run);
}

Json json_of(const optim::Figures& figures) {
  Json json = Json::object();
  for (const optim::Figure& figure : figures) json[figure.name] = figure.value;
  return json;
}

Json json_of(const SavedRound& saved, bool best) {
  Json json{{"round", saved.round},
            {"run", fmt::format("{:016x}", saved.run)},
            {"complete", saved.complete()},
            {"best", best},
            {"bytes", total_bytes(saved)},
            {"epoch", saved.entries.front().head.epoch},
            {"share_done", saved.entries.front().head.share_done},
            {"figures", json_of(mean_figures(saved.entries))},
            {"written", saved.entries.front().written},
            {"peers", Json::array()},
            {"missing", saved.missing}};
  for (const CheckpointEntry& entry : saved.entries) json["peers"].push_back(entry.head.peer);
  return json;
}

std::string names_text(std::span<const std::string> names) {
  constexpr std::size_t kMost = 6;
  if (names.size() <= kMost) return join(names, ", ");
  return fmt::format("{} and {} more", join(names.first(kMost), ", "), names.size() - kMost);
}

// --- list ---

int list_rounds(const CheckpointFlags& flags) {
  SavedRun run(flags.run);
  const std::vector<SavedRound> rounds = run.rounds();
  const auto best = best_place(complete_rounds(run.entries()));
  const auto is_best = [&](const SavedRound& saved) { return best == std::pair(saved.round, saved.run); };
  if (flags.json) {
    Json json{
        {"folder", run.folder().path().string()}, {"rounds", Json::array()}, {"problems", run.problems()}};
    for (const SavedRound& saved : rounds) json["rounds"].push_back(json_of(saved, is_best(saved)));
    std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    return kExitOk;
  }
  fmt::print("{:>12}  {:>9}  {:>9}  {:>8}  {:<20}  {}\n", "ROUND", "PEERS", "BYTES", "EPOCH", "WRITTEN",
             "TEST");
  for (const SavedRound& saved : rounds) {
    const CheckpointHead& head = saved.entries.front().head;
    std::string notes = figures_text(mean_figures(saved.entries));
    const auto note = [&](const std::string& words) { notes += (notes.empty() ? "" : "; ") + words; };
    if (is_best(saved)) note("the best");
    if (!saved.complete()) note("incomplete: " + names_text(saved.missing) + " missing");
    fmt::print("{:>12}  {:>9}  {:>9}  {:>8}  {:<20}  {}\n", saved.round,
               fmt::format("{} of {}", saved.entries.size(), head.peers.size()),
               bytes_text(static_cast<double>(total_bytes(saved))), figure_text(head.epoch),
               saved.entries.front().written, notes.empty() ? "-" : notes);
  }
  std::cout.flush();
  run.tell_problems();
  return kExitOk;
}

// --- show ---

/// The round that was asked for, or the newest that is complete, or the newest.
SavedRound choose(const SavedRun& run, std::optional<Round> round) {
  const std::vector<SavedRound> rounds = run.rounds();
  if (rounds.empty()) throw StateError("none of these checkpoints can be read; expected at least one");
  std::optional<SavedRound> chosen;
  for (const SavedRound& saved : rounds)
    if (!round || saved.round == *round)
      if (!chosen || saved.complete() || !chosen->complete()) chosen = saved;
  if (chosen) return *chosen;
  std::vector<std::string> known;
  for (const SavedRound& saved : rounds) known.push_back(std::to_string(saved.round));
  throw ConfigError(fmt::format("no checkpoint of round {}; there are {}", *round, names_text(known)));
}

const CheckpointEntry& entry_of(const SavedRound& saved, const std::string& peer) {
  if (peer.empty()) return saved.entries.front();
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : saved.entries) {
    if (entry.head.peer == peer) return entry;
    names.push_back(entry.head.peer);
  }
  throw ConfigError(fmt::format("round {} has no checkpoint of peer '{}'; expected one of {}{}", saved.round,
                                shortened(peer), names_text(names), did_you_mean(peer, names)));
}

std::map<std::string, TensorRecord> tensors_of(SavedRun& run, const CheckpointEntry& entry) {
  const fs::path file = run.folder().path_of(entry.head.round) / entry.files.front().name;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    run.storage().read(file, offset, into);
  };
  return SafetensorsReader(file.string(), {run.storage().size(file), read}).records();
}

void show_json(const SavedRound& saved, const CheckpointEntry& entry, const std::vector<ArrayOutline>& arrays,
               const std::map<std::string, TensorRecord>& tensors) {
  Json json = json_of(saved, false);
  json.erase("best");
  json["peer"] = entry.head.peer;
  json["files"] = Json::array();
  for (const CheckpointEntry& one : saved.entries)
    for (const CheckpointFile& file : one.files)
      json["files"].push_back(
          {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", fmt::format("{:016x}", file.hash)}});
  json["tensors"] = Json::array();
  for (const auto& [name, record] : tensors)
    json["tensors"].push_back({{"name", name}, {"shape", record.shape}});
  json["arrays"] = Json::array();
  for (const ArrayOutline& array : arrays)
    json["arrays"].push_back({{"name", array.name},
                              {"kind", kind_name(array.kind)},
                              {"count", array.bytes / element_bytes(array.kind)},
                              {"bytes", array.bytes}});
  json["job"] = entry.head.job;
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void show_text(const SavedRound& saved, const CheckpointEntry& entry, const std::vector<ArrayOutline>& arrays,
               const std::map<std::string, TensorRecord>& tensors) {
  const CheckpointHead& head = entry.head;
  const std::string figures = figures_text(mean_figures(saved.entries));
  fmt::print("round       {}\nrun         {:016x}\npeers       {} of {}{}\n", saved.round, saved.run,
             saved.entries.size(), head.peers.size(),
             saved.complete() ? ", complete" : "; " + names_text(saved.missing) + " missing");
  fmt::print("epoch       {}\nshare done  {}\ntest        {}\nwritten     {}\nbytes       {}\n\n",
             figure_text(head.epoch), figure_text(head.share_done), figures.empty() ? "-" : figures,
             entry.written, total_bytes(saved));
  for (const CheckpointEntry& one : saved.entries)
    for (const CheckpointFile& file : one.files)
      fmt::print("{:>14}  {:016x}  {}\n", file.bytes, file.hash, file.name);
  fmt::print("\nof {}:\n{:>14}  {:<8}  {}\n", head.peer, "COUNT", "KIND", "ARRAY");
  for (const auto& [name, record] : tensors)
    fmt::print("{:>14}  {:<8}  {}\n", (record.end - record.begin) / sizeof(float), "tensor", name);
  for (const ArrayOutline& array : arrays)
    fmt::print("{:>14}  {:<8}  {}\n", array.bytes / element_bytes(array.kind), kind_name(array.kind),
               array.name);
}

int show_round(const CheckpointFlags& flags) {
  SavedRun run(flags.run);
  const SavedRound saved = choose(run, flags.round);
  const CheckpointEntry& entry = entry_of(saved, flags.peer);
  if (flags.job && !flags.json) {
    std::cout << entry.head.job;
    return kExitOk;
  }
  const auto arrays = run.folder().outline(entry);
  (flags.json ? show_json : show_text)(saved, entry, arrays, tensors_of(run, entry));
  return kExitOk;
}

// --- verify ---

int verify(const CheckpointFlags& flags) {
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

// --- prune ---

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

int prune(const CheckpointFlags& flags) {
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

}  // namespace

void add_checkpoint_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("checkpoint", "What a run has saved of itself");
  command->require_subcommand(1);
  auto flags = std::make_shared<CheckpointFlags>();
  const auto with_run = [&](const char* name, const char* help, int (*work)(const CheckpointFlags&)) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("RUN", flags->run, "a run's folder (runs/JOB-TIME), or its checkpoints")->required();
    sub->callback([flags, work, &status] { status = work(*flags); });
    return sub;
  };
  auto* list = with_run("list", "The rounds that were saved, by whom, and how good they are", list_rounds);
  list->add_flag("--json", flags->json, "print one JSON object");
  auto* show = with_run("show", "What was saved of one round: files, arrays, job", show_round);
  show->add_option("ROUND", flags->round, "the newest that all peers have, where none is given");
  show->add_option("--peer", flags->peer, "whose arrays are shown; of the first in the job by default");
  show->add_flag("--job", flags->job, "print the job alone");
  show->add_flag("--json", flags->json, "print one JSON object");
  with_run("verify", "Read all files and name those that are not what was written", verify);
  auto* removing = with_run("prune", "Remove what a run need not keep, oldest first", prune);
  removing
      ->add_option("--keep", flags->keep,
                   "how many of the newest rounds that are whole at all peers stay; the best does too")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  removing->add_flag("--dry-run", flags->dry_run, "say what would be removed, and remove nothing");
}

}  // namespace gossamer::node
