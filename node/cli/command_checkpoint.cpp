// gossamer checkpoint: what a run has saved, whether it is whole, and what of it need not be kept.
#include "command_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

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
  fmt::print("epoch       {}\nshare done  {}\nfigures     {}\nwritten     {}\nbytes       {}\n\n",
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
  if (flags.job) {
    std::cout << entry.head.job;
    return kExitOk;
  }
  const auto arrays = run.folder().outline(entry);
  (flags.json ? show_json : show_text)(saved, entry, arrays, tensors_of(run, entry));
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
  show->add_option("ROUND", flags->round, "the newest that all peers have, where none is given")
      ->check(zero_or_more());
  show->add_option("--peer", flags->peer, "whose arrays are shown; of the first in the job by default");
  auto* job = show->add_flag("--job", flags->job, "print the job alone");
  show->add_flag("--json", flags->json, "print one JSON object")->excludes(job);
  with_run("verify", "Read all files and name those that are not what was written", verify_checkpoints);
  auto* removing = with_run("prune", "Remove what a run need not keep, oldest first", prune_checkpoints);
  removing
      ->add_option("--keep", flags->keep,
                   "how many of the newest rounds that are whole at all peers stay; the best does too")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  removing->add_flag("--dry-run", flags->dry_run, "say what would be removed, and remove nothing");
}

}  // namespace gossamer::node
