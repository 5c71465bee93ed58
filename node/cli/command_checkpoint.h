#pragma once
// What the commands on checkpoints share.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint.h"

namespace gossamer::node {

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

/// The checkpoints of a run's folder.
class SavedRun {
 public:
  /// run: the run's folder, or that of its checkpoints. Throws ConfigError where it is neither.
  explicit SavedRun(const std::string& run);
  CheckpointFolder& folder() { return folder_; }
  Storage& storage() { return storage_; }
  /// Those whose files have the right sizes; why the others are not among them say the problems.
  const std::vector<CheckpointEntry>& entries() const { return entries_; }
  const std::vector<std::string>& problems() const { return problems_; }
  void tell_problems() const;  ///< on standard error
  /// Rounds ascend; of one round the runs do.
  std::vector<SavedRound> rounds() const;

 private:
  PosixStorage storage_;
  CheckpointFolder folder_;
  std::vector<CheckpointEntry> entries_;
  std::vector<std::string> problems_;
};

/// Comma-separated; of many the first.
std::string names_text(std::span<const std::string> names);

// Each returns the exit status.
int verify_checkpoints(const CheckpointFlags& flags);
int prune_checkpoints(const CheckpointFlags& flags);

}  // namespace gossamer::node
