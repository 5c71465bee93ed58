#include "checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>

#include "checkpoint_names.h"
#include "gossamer/node/errors.h"
#include "hash.h"
#include "replica.h"
#include "safetensors_format.h"
#include "text.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kReadAtOnce = 4 << 20;
constexpr const char* kFormatKey = "format";
constexpr std::string_view kFormatName = "gossamer checkpoint ";
constexpr int kFormatVersion = 1;

std::string time_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text;
}

/// Bytes of a parameter buffer of these layers, padding included.
std::size_t bytes_of_buffer(const std::vector<optim::Layer>& layers) {
  constexpr std::size_t kAlign = 16;  ///< floats; model.h
  if (layers.empty()) return 0;
  return (layers.back().offset + layers.back().size + kAlign - 1) / kAlign * kAlign * sizeof(float);
}

std::span<const std::byte> x_of(const State& state, const std::vector<optim::Layer>& layers) {
  const auto at = state.find(kParametersArray);
  if (at == state.end() || at->second.kind != NamedArray::Kind::floats)
    throw StateError(
        fmt::format("a state without floats '{}' is no peer's; nothing was saved", kParametersArray));
  if (at->second.bytes.size() != bytes_of_buffer(layers))
    throw StateError(fmt::format("'{}' holds {} bytes, and the model's layers take {}; nothing was saved",
                                 kParametersArray, at->second.bytes.size(), bytes_of_buffer(layers)));
  return at->second.bytes;
}

/// "gossamer checkpoint 1"
void check_format(const fs::path& file, const TensorMetadata& metadata) {
  const auto at = metadata.find(kFormatKey);
  if (at == metadata.end() || !at->second.starts_with(kFormatName))
    throw StateError(fmt::format("{}: a model, but no part of a checkpoint", file.string()));
  const std::string version = at->second.substr(kFormatName.size());
  if (version != std::to_string(kFormatVersion))
    throw StateError(fmt::format(
        "{}: version {} of a checkpoint's parameters; this program reads {}; use a newer gossamer",
        file.string(), version, kFormatVersion));
}

std::uint64_t hash_of(const ByteSource& source) {
  Hasher hash;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < source.size; at += piece.size()) {
    piece.resize(std::min(kReadAtOnce, source.size - at));
    source.read(at, piece);
    hash.add(piece);
  }
  return hash.value();
}

/// StateErrors of the call begin with the file's name.
template <class Call>
auto naming(const fs::path& file, Call call) {
  try {
    return call();
  } catch (const StateError& error) {
    throw StateError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(Storage& storage, std::filesystem::path folder)
    : storage_(storage), folder_(std::move(folder)) {
  if (folder_.has_relative_path() && !folder_.has_filename()) folder_ = folder_.parent_path();  // "runs/a/"
}

std::filesystem::path CheckpointFolder::path_of(Round round) const {
  return folder_ / round_folder_name(round);
}

// --- Writing ---

std::uint64_t CheckpointFolder::write(const CheckpointHead& head, const std::vector<optim::Layer>& layers,
                                      const State& state) {
  if (!names_a_peer(head.peer))
    throw StateError(fmt::format("'{}' is no name of a peer; expected {}", head.peer, kPeerName));
  x_of(state, layers);
  CheckpointEntry entry{head, {{head.peer + kParametersSuffix}, {head.peer + kStateSuffix}}, time_text()};
  parse_manifest(to_json(entry));  // throws where nobody could read it
  entry.files.clear();
  remove(head.round, head.peer);
  const fs::path folder = path_of(head.round);
  try {
    write_files(folder, entry, layers, state);
    commit(folder, entry);
  } catch (...) {
    discard(head.round, head.peer);
    throw;
  }
  return entry.bytes() + to_json(entry).size();
}

void CheckpointFolder::write_files(const std::filesystem::path& folder, CheckpointEntry& entry,
                                   const std::vector<optim::Layer>& layers, const State& state) {
  const CheckpointHead& head = entry.head;
  const TensorMetadata metadata{{kFormatKey, fmt::format("{}{}", kFormatName, kFormatVersion)},
                                {"peer", head.peer},
                                {"round", std::to_string(head.round)}};
  entry.files.push_back(put(folder, head.peer + kParametersSuffix, [&](const ByteSink& sink) {
    write_safetensors(sink, layers, x_of(state, layers), metadata);
  }));
  entry.files.push_back(put(folder, head.peer + kStateSuffix,
                            [&](const ByteSink& sink) { write_state(state, sink, kParametersArray); }));
}

void CheckpointFolder::commit(const std::filesystem::path& folder, CheckpointEntry& entry) {
  storage_.sync_folder(folder);  // before the manifest speaks of them, the files' names survive
  const std::string json = to_json(entry);
  put(folder, entry.head.peer + kManifestSuffix,
      [&](const ByteSink& sink) { sink(std::as_bytes(std::span(json))); });
  storage_.sync_folder(folder);
  storage_.sync_folder(folder_);
  sync_above();
}

/// Writes a file under another name, and renames it once it is on the disk.
CheckpointFile CheckpointFolder::put(const std::filesystem::path& folder, const std::string& name,
                                     const std::function<void(const ByteSink&)>& contents) {
  const fs::path temporary = folder / temporary_name(name);
  CheckpointFile written{name, 0, 0};
  Hasher hash;
  {
    const auto file = open_new(temporary);
    BufferedSink buffered([&](std::span<const std::byte> bytes) {
      file->write(bytes);
      hash.add(bytes);
      written.bytes += bytes.size();
    });
    contents(buffered.sink());
    buffered.flush();
    file->sync();
  }
  storage_.rename(temporary, folder / name);
  written.hash = hash.value();
  return written;
}

/// Another peer may remove the round's folder while nothing stands in it: once more, then.
std::unique_ptr<StoredFile> CheckpointFolder::open_new(const std::filesystem::path& file) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    storage_.make_folders(file.parent_path());
    try {
      return storage_.create(file);
    } catch (const StorageError&) {
      if (attempt == kAttempts) throw;
    }
  }
}

/// The folders above may be as new as the first checkpoint. The nearest is the run's own; those further up
/// may be none that this user can open.
void CheckpointFolder::sync_above() {
  if (above_synced_) return;
  const auto above = [](const fs::path& folder) {
    const fs::path parent = folder.parent_path();
    return parent.empty() ? fs::path(".") : parent;
  };
  fs::path folder = above(folder_);
  storage_.sync_folder(folder);
  try {
    for (; folder != "." && folder != above(folder); storage_.sync_folder(folder)) folder = above(folder);
  } catch (const StorageError&) {
  }
  above_synced_ = true;
}

// --- Removing ---

void CheckpointFolder::remove(Round round, const std::string& peer) {
  const fs::path folder = path_of(round);
  std::vector<std::string> rest;
  bool committed = false;
  for (const std::string& name : storage_.names(folder)) {
    const auto file = parse_file_name(name);
    if (!file || file->peer != peer) continue;
    if (file->suffix == kManifestSuffix && !file->temporary)
      committed = true;
    else
      rest.push_back(name);
  }
  if (committed) {
    storage_.remove(folder / (peer + kManifestSuffix));
    storage_.sync_folder(folder);  // or the manifest could outlive its files
  }
  for (const std::string& name : rest) storage_.remove(folder / name);
  if (committed || !rest.empty()) remove_if_empty(folder);
}

/// As much of an attempt as can be: sweep finds the rest.
void CheckpointFolder::discard(Round round, const std::string& peer) {
  const fs::path folder = path_of(round);
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (const std::exception&) {
    }
  };
  for (const char* suffix : {kManifestSuffix, kParametersSuffix, kStateSuffix})
    for (const std::string& name : {peer + suffix, temporary_name(peer + suffix)})
      attempt([&] { storage_.remove(folder / name); });
  attempt([&] { remove_if_empty(folder); });
}

/// Another peer may put a file there in between.
void CheckpointFolder::remove_if_empty(const std::filesystem::path& folder) {
  if (!storage_.names(folder).empty()) return;
  try {
    storage_.remove(folder);
  } catch (const StorageError&) {
    if (storage_.names(folder).empty()) throw;
  }
}

std::vector<CheckpointFolder::Leftover> CheckpointFolder::leftovers(const std::string& peer) const {
  std::vector<Leftover> found;
  for (const Round round : rounds()) {
    const fs::path folder = path_of(round);
    const std::vector<std::string> names = storage_.names(folder);
    const std::set<std::string> all(names.begin(), names.end());
    for (const std::string& name : names) {
      const auto file = parse_file_name(name);
      if (!file || (!peer.empty() && file->peer != peer)) continue;
      if (file->temporary || !all.contains(file->peer + kManifestSuffix))
        found.push_back({round, folder / name, storage_.size(folder / name)});
    }
  }
  return found;
}

void CheckpointFolder::remove(const Leftover& leftover) {
  storage_.remove(leftover.path);
  remove_if_empty(path_of(leftover.round));
}

void CheckpointFolder::sweep(const std::string& peer) {
  for (const Leftover& leftover : leftovers(peer)) remove(leftover);
  for (const Round round : rounds()) remove_if_empty(path_of(round));
}

// --- What is there ---

std::vector<Round> CheckpointFolder::rounds() const {
  std::vector<Round> rounds;
  for (const std::string& name : storage_.names(folder_))
    if (const auto round = round_of_folder(name)) rounds.push_back(*round);
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

std::vector<CheckpointFolder::Place> CheckpointFolder::places() const {
  std::vector<Place> places;
  for (const Round round : rounds())
    for (const std::string& name : storage_.names(path_of(round)))
      if (const auto file = parse_file_name(name);
          file && !file->temporary && file->suffix == kManifestSuffix)
        places.push_back({round, file->peer});
  std::sort(places.begin(), places.end());
  return places;
}

CheckpointEntry CheckpointFolder::find(Round round, const std::string& peer) const {
  const fs::path file = path_of(round) / (peer + kManifestSuffix);
  return naming(file, [&] {
    const std::uint64_t bytes = storage_.size(file);
    if (bytes > kMostBytesOfManifest)
      throw StateError(fmt::format("damaged: {} bytes; expected at most {}", bytes, kMostBytesOfManifest));
    std::string text(bytes, '\0');
    storage_.read(file, 0, std::as_writable_bytes(std::span(text)));
    CheckpointEntry entry = parse_manifest(text);
    if (entry.head.round != round || entry.head.peer != peer)
      throw StateError(fmt::format("is of round {} of {}; expected it where it was written, as {}/{}{}",
                                   entry.head.round, entry.head.peer, round_folder_name(entry.head.round),
                                   entry.head.peer, kManifestSuffix));
    return entry;
  });
}

std::vector<CheckpointEntry> CheckpointFolder::list(std::vector<std::string>* problems) const {
  std::vector<CheckpointEntry> entries;
  for (const Place& place : places()) try {
      entries.push_back(find(place.round, place.peer));
    } catch (const StateError& error) {
      if (problems) problems->push_back(error.what());
    } catch (const StorageError& error) {
      if (problems) problems->push_back(error.what());
    }
  return entries;
}

// --- Reading ---

ByteSource CheckpointFolder::source_of(const CheckpointEntry& entry, const char* suffix) const {
  const fs::path file = path_of(entry.head.round) / (entry.head.peer + suffix);
  return {storage_.size(file), [this, file](std::uint64_t offset, std::span<std::byte> into) {
            storage_.read(file, offset, into);
          }};
}

std::string CheckpointFolder::damage_of(const CheckpointEntry& entry, const CheckpointFile& file,
                                        Look look) const {
  const fs::path path = path_of(entry.head.round) / file.name;
  try {
    const auto said = storage_.names(path_of(entry.head.round));
    if (!std::ranges::binary_search(said, file.name)) return fmt::format("{}: is missing", path.string());
    const std::uint64_t bytes = storage_.size(path);
    if (bytes != file.bytes)
      return fmt::format("{}: damaged: {} bytes; its manifest says {}", path.string(), bytes, file.bytes);
    if (look == Look::sizes) return {};
    const ByteSource source{
        bytes, [&](std::uint64_t at, std::span<std::byte> into) { storage_.read(path, at, into); }};
    if (hash_of(source) != file.hash)
      return fmt::format("{}: damaged: its bytes are not those that were written", path.string());
  } catch (const StorageError& error) {
    return error.what();
  }
  return {};
}

std::string CheckpointFolder::damage(const CheckpointEntry& entry, Look look) const {
  std::vector<std::string> all;
  for (const CheckpointFile& file : entry.files)
    if (std::string wrong = damage_of(entry, file, look); !wrong.empty()) all.push_back(std::move(wrong));
  return join(all, "; ");
}

void CheckpointFolder::read_x(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers,
                              std::span<std::byte> x) const {
  const fs::path file = path_of(entry.head.round) / (entry.head.peer + kParametersSuffix);
  if (const std::string wrong = damage_of(entry, entry.files.at(0), Look::hashes); !wrong.empty())
    throw StateError(wrong);
  try {
    const SafetensorsReader reader(file.string(), source_of(entry, kParametersSuffix));
    check_format(file, reader.metadata());
    reader.read(layers, x);
  } catch (const ConfigError& error) {
    throw StateError(error.what());
  }
}

void CheckpointFolder::read_parameters(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers,
                                       std::span<float> x) const {
  if (x.size_bytes() != bytes_of_buffer(layers))
    throw StateError(fmt::format("{} floats for the parameters of a model that has {}", x.size(),
                                 bytes_of_buffer(layers) / sizeof(float)));
  read_x(entry, layers, std::as_writable_bytes(x));
}

State CheckpointFolder::read(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers) const {
  const fs::path file = path_of(entry.head.round) / (entry.head.peer + kStateSuffix);
  if (const std::string wrong = damage_of(entry, entry.files.at(1), Look::hashes); !wrong.empty())
    throw StateError(wrong);
  State state = naming(file, [&] { return read_state(source_of(entry, kStateSuffix)); });
  NamedArray& x = state[kParametersArray];
  x = {NamedArray::Kind::floats, std::vector<std::byte>(bytes_of_buffer(layers))};
  read_x(entry, layers, x.bytes);
  return state;
}

std::vector<ArrayOutline> CheckpointFolder::outline(const CheckpointEntry& entry) const {
  return naming(path_of(entry.head.round) / (entry.head.peer + kStateSuffix),
                [&] { return outline_of_state(source_of(entry, kStateSuffix)); });
}

}  // namespace gossamer::node
