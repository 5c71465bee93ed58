#include "run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint_names.h"
#include "checkpoint_rounds.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/safetensors.h"
#include "storage.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* kParentFile = "resumed.json";
constexpr int kMostParents = 1000;

bool holds_rounds(const fs::path& folder) {
  const auto names = PosixStorage().names(folder);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return round_of_folder(name).has_value(); });
}

/// A round of all peers, or something of each; else it is what some had written when the run was killed.
bool holds_something_of_all(const fs::path& folder) {
  PosixStorage storage;
  std::vector<std::string> problems;
  const auto entries = CheckpointFolder(storage, folder).list(&problems);
  if (!complete_rounds(entries).empty()) return true;
  std::set<std::string> here;
  for (const CheckpointEntry& e : entries) here.insert(e.head.peer);
  return !entries.empty() && here.size() >= entries.back().head.peers.size();
}

/// The folder that a run went on from; empty: it began by itself.
std::optional<std::string> parent_of(const fs::path& run) {
  std::ifstream in(run / kParentFile);
  if (!in) return std::nullopt;
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("parent") || !json["parent"].is_string())
    throw ConfigError(fmt::format("{}: damaged; expected the name of the folder that the run went on from",
                                  (run / kParentFile).string()));
  return json["parent"].get<std::string>();
}

}  // namespace

std::optional<fs::path> checkpoints_in(const fs::path& run) {
  for (const fs::path& folder : {run / "checkpoints", run})
    if (holds_rounds(folder)) return folder;
  return std::nullopt;
}

fs::path checkpoints_of(const std::string& run, const std::string& asked) {
  std::error_code unknown;
  if (!fs::is_directory(run, unknown))
    throw ConfigError(
        fmt::format("{} {}: no such folder; expected that of a run (runs/JOB-TIME)", asked, run));
  std::optional<fs::path> some;
  std::string at = run;
  for (int n = 0; n < kMostParents; ++n) {
    const auto folder = checkpoints_in(at);
    if (folder && holds_something_of_all(*folder)) return *folder;
    if (!some) some = folder;
    const auto parent = parent_of(at);
    if (!parent) break;
    at = *parent;
  }
  if (some) return *some;  // a peer's own, or a run's that never got as far
  throw ConfigError(fmt::format(
      "{} {}: holds no checkpoints; expected folders such as checkpoints/{} (a run makes them every "
      "run.checkpoint_every, and where it is told to end)",
      asked, run, round_folder_name(120)));
}

void write_parent(const fs::path& run, const std::string& parent, Round round, bool same_bits,
                  const std::string& differs) {
  std::error_code unknown;
  if (fs::equivalent(run, parent, unknown)) return;  // it goes on in its own folder
  const nlohmann::ordered_json json{{"parent", fs::absolute(parent).lexically_normal().string()},
                                    {"round", round},
                                    {"same_bits", same_bits},
                                    {"differs", differs}};
  PosixStorage storage;
  replace_file(storage, run / kParentFile,
               json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

std::vector<CheckpointEntry> whole(const CheckpointFolder& folder, std::span<const CheckpointEntry> entries,
                                   std::vector<std::string>& problems) {
  std::vector<CheckpointEntry> good;
  for (const CheckpointEntry& entry : entries) {
    const std::string damage = folder.damage(entry);
    damage.empty() ? good.push_back(entry) : problems.push_back(damage);
  }
  return good;
}

std::vector<CheckpointEntry> newest_complete(const CheckpointFolder& folder,
                                             std::span<const CheckpointEntry> entries,
                                             std::vector<std::string>& problems,
                                             std::span<const std::string> but) {
  std::vector<CompleteRound> rounds = complete_rounds(entries, but);
  for (; !rounds.empty(); rounds.pop_back())
    if (auto good = whole(folder, rounds.back().entries, problems);
        good.size() == rounds.back().entries.size())
      return good;
  return {};
}

std::vector<CheckpointEntry> newest_of_each(const CheckpointFolder& folder,
                                            std::span<const CheckpointEntry> entries,
                                            std::vector<std::string>& problems) {
  std::map<std::string, CheckpointEntry> newest;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    if (!newest.contains(entry->head.peer))
      if (const auto good = whole(folder, {&*entry, 1}, problems); !good.empty())
        newest.emplace(entry->head.peer, good.front());
  std::vector<CheckpointEntry> each;
  for (const std::string& peer : entries.back().head.peers)
    if (const auto at = newest.find(peer); at != newest.end()) each.push_back(at->second);
  return each;
}

void read_mean(const CheckpointFolder& folder, std::span<const CheckpointEntry> entries,
               const std::vector<optim::Layer>& layers, std::span<float> x) {
  std::vector<double> sum(x.size());
  for (const CheckpointEntry& entry : entries) {
    folder.read_parameters(entry, layers, x);
    for (std::size_t k = 0; k < x.size(); ++k) sum[k] += static_cast<double>(x[k]);
  }
  for (std::size_t k = 0; k < x.size(); ++k)
    x[k] = static_cast<float>(sum[k] / static_cast<double>(entries.size()));
}

void read_run_parameters(const std::string& run, const std::vector<optim::Layer>& layers,
                         std::span<float> x) {
  std::error_code unknown;
  if (const fs::path model = fs::path(run) / "model.safetensors"; fs::exists(model, unknown))
    return read_safetensors(model.string(), layers, x);
  PosixStorage storage;
  const CheckpointFolder folder(storage, checkpoints_of(run, "model.initial"));
  std::vector<std::string> problems;
  auto entries = folder.list(&problems);
  if (!entries.empty())
    std::erase_if(entries, [newest = entries.back().head.run](const CheckpointEntry& e) {
      return e.head.run != newest;
    });
  auto chosen = newest_complete(folder, entries, problems);
  if (chosen.empty() && !entries.empty()) chosen = newest_of_each(folder, entries, problems);
  if (chosen.empty()) {
    std::string text = fmt::format("model.initial {}: none of its checkpoints is whole", run);
    for (const std::string& problem : problems) text += "; " + problem;
    throw ConfigError(text);
  }
  try {
    read_mean(folder, chosen, layers, x);
  } catch (const StateError& error) {
    throw ConfigError(fmt::format("model.initial {}: {}", run, error.what()));
  }
}

}  // namespace gossamer::node
