#pragma once
// A checkpoint is what one peer keeps of a round, on disk. Of the peers of a run there is one each:
//
//   FOLDER/round-000000000120/NAME.safetensors   x
//                             NAME.state         the rest of its State, named arrays
//                             NAME.json          the manifest: what it is of, sizes and hashes of the two
//
// Each file is written under another name, synced, and renamed; the folder is synced; the manifest goes last.
// So a checkpoint whose manifest stands is whole, whenever the power fails.
//
// Several processes may share a folder, each writing what is its own peer's; of a peer one at a time.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive.h"
#include "gossamer/optim/model.h"
#include "gossamer/optim/objective.h"
#include "ids.h"
#include "storage.h"

namespace gossamer::node {

/// What a checkpoint is of.
struct CheckpointHead {
  std::string peer;                ///< its name
  std::vector<std::string> peers;  ///< all of the run, in the job's order
  Round round = 0;        ///< which all peers of the run know it by; of one that waits for nobody its own
  std::uint64_t run = 0;  ///< drawn when the peers met; those of one run alone go together
  double share_done = 0, epoch = 0;
  std::string job;           ///< what the peers agreed on, as to_toml writes it
  optim::Figures figures{};  ///< of the newest evaluation since the one before; may be empty
  bool learned = false;      ///< nothing but what was learned is there: the peer had left its view
  bool later_view = false;   ///< members had come or gone since the run began, or went on
  bool operator==(const CheckpointHead&) const = default;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0, hash = 0;  ///< hash: XXH3
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointEntry {
  CheckpointHead head;
  std::vector<CheckpointFile> files;  ///< NAME.safetensors, NAME.state
  std::string written;                ///< UTC, for people
  std::uint64_t bytes() const;        ///< of the files
  bool operator==(const CheckpointEntry&) const = default;
};

/// The manifest's JSON. Throws StateError: of a newer version, damaged, or none.
CheckpointEntry parse_manifest(std::string_view json);
/// Sealed by a hash of its own.
std::string to_json(const CheckpointEntry& entry);
constexpr std::uint64_t kMostBytesOfManifest = 64 << 20;

class CheckpointFolder {
 public:
  CheckpointFolder(Storage& storage, std::filesystem::path folder);

  /// In place of one of that round and peer, which is removed first. Padding of x is taken for 0. Returns the
  /// bytes of the three files. Throws StorageError, having given back the space of what it had written; and
  /// StateError where x is not of these layers, or the head is none that could be read again.
  std::uint64_t write(const CheckpointHead& head, const std::vector<optim::Layer>& layers,
                      const State& state);

  /// Of all manifests that can be read; rounds ascend, then names. Why the others cannot goes to problems.
  std::vector<CheckpointEntry> list(std::vector<std::string>* problems = nullptr) const;
  /// Of one manifest. Throws StorageError, StateError.
  CheckpointEntry find(Round round, const std::string& peer) const;
  struct Place {
    Round round = 0;
    std::string peer;
    auto operator<=>(const Place&) const = default;
  };
  /// Of all manifests, readable or not; ascending.
  std::vector<Place> places() const;

  /// Empty where its files are what the manifest says; else what is wrong, with each file's name. By sizes
  /// alone this takes no time, by hashes that of reading them.
  enum class Look { sizes, hashes };
  std::string damage(const CheckpointEntry& entry, Look look = Look::hashes) const;
  /// Checked against the hashes. Throws StorageError, StateError.
  State read(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers) const;
  /// x alone, padding 0. Throws as read.
  void read_parameters(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers,
                       std::span<float> x) const;
  /// What stands in the state's file, without a look at the hashes. Throws as read.
  std::vector<ArrayOutline> outline(const CheckpointEntry& entry) const;

  /// The manifest goes first. One that is not there: nothing. Throws StorageError.
  void remove(Round round, const std::string& peer);
  struct Leftover {
    Round round = 0;
    std::filesystem::path path;
    std::uint64_t bytes = 0;
  };
  /// What failed or interrupted attempts have left, of a peer or, where none is named, of all: files with
  /// another name, and such as no manifest speaks of. While a peer writes, its files are among them.
  std::vector<Leftover> leftovers(const std::string& peer = {}) const;
  void remove(const Leftover& leftover);  ///< with its folder, if nothing else is there
  /// Removes what failed or interrupted attempts of this peer have left. Throws StorageError.
  void sweep(const std::string& peer);
  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path path_of(Round round) const;

 private:
  CheckpointFile put(const std::filesystem::path& folder, const std::string& name,
                     const std::function<void(const ByteSink&)>& contents);
  std::unique_ptr<StoredFile> open_new(const std::filesystem::path& file);
  void write_files(const std::filesystem::path& folder, CheckpointEntry& entry,
                   const std::vector<optim::Layer>& layers, const State& state);
  void commit(const std::filesystem::path& folder, CheckpointEntry& entry);
  void sync_above();
  void discard(Round round, const std::string& peer);
  void remove_if_empty(const std::filesystem::path& folder);
  std::vector<Round> rounds() const;
  std::string damage_of(const CheckpointEntry& entry, const CheckpointFile& file, Look look) const;
  ByteSource source_of(const CheckpointEntry& entry, const char* suffix) const;
  void read_x(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers,
              std::span<std::byte> x) const;

  Storage& storage_;
  std::filesystem::path folder_;
  bool above_synced_ = false;  ///< the folders above are known to survive
};

/// Of the rounds that a peer has, ascending, those that it need not keep: all but the `keep` newest that
/// every peer has (up to `common`; none: there are none), the `keep` newest after those, and the best one.
std::vector<Round> superfluous(const std::vector<Round>& rounds, std::optional<Round> common,
                               std::size_t keep, std::optional<Round> best);

}  // namespace gossamer::node
