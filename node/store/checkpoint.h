#pragma once
// A checkpoint is what one peer keeps of a round, on disk. Of the peers of a run there is one each:
//
//   FOLDER/round-000000000120/NAME.safetensors   x
//                             NAME.state         the rest of its State, named arrays
//                             NAME.json          the manifest: what it is of, sizes and hashes of the two
//
// Each file is written under another name, synced, and renamed; the folder is synced; the manifest goes last.
// So a checkpoint whose manifest stands is whole, whenever the power fails.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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
  optim::Figures figures{};  ///< of the newest evaluation before it; may be empty
  bool operator==(const CheckpointHead&) const = default;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0, hash = 0;  ///< hash: XXH3
};

struct CheckpointEntry {
  CheckpointHead head;
  std::vector<CheckpointFile> files;
  std::string written;  ///< UTC, for people
};

/// The manifest's JSON. Throws StateError: of a newer version, damaged, or none.
CheckpointEntry parse_manifest(std::string_view json);
std::string to_json(const CheckpointEntry& entry);

class CheckpointFolder {
 public:
  CheckpointFolder(Storage& storage, std::filesystem::path folder);

  /// Returns the bytes of the three files. Throws StorageError, having given back the space of what it had
  /// written.
  std::uint64_t write(const CheckpointHead& head, const std::vector<optim::Layer>& layers,
                      const State& state);
  /// Of all manifests that can be read; rounds ascend, then names. Why the others cannot goes to problems.
  std::vector<CheckpointEntry> list(std::vector<std::string>* problems = nullptr) const;
  /// Empty where its files are what the manifest says; else what is wrong, with the file's name.
  std::string damage(const CheckpointEntry& entry) const;
  /// Checked against the hashes. Throws StorageError, StateError.
  State read(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers) const;
  /// x alone, padding 0.
  void read_parameters(const CheckpointEntry& entry, const std::vector<optim::Layer>& layers,
                       std::span<float> x) const;
  /// The manifest goes first. One that is not there: nothing.
  void remove(Round round, const std::string& peer);
  /// Removes what failed or interrupted attempts of this peer have left.
  void sweep(const std::string& peer);
  const std::filesystem::path& path() const { return folder_; }

 private:
  Storage& storage_;
  std::filesystem::path folder_;
};

/// Of the rounds that a peer has, ascending, those that it need not keep: all but the `keep` newest that
/// every peer has (up to `common`; none: there are none), the `keep` newest after those, and the best one.
std::vector<Round> superfluous(const std::vector<Round>& rounds, std::optional<Round> common,
                               std::size_t keep, std::optional<Round> best);

}  // namespace gossamer::node
