#pragma once
// A run leaves its files in a folder of its own: runs/<job>-<time>/.
#include <filesystem>
#include <optional>
#include <string>

#include "gossamer/node/job.h"

namespace gossamer::node {

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kCheckpointsFolder = "checkpoints";

/// Makes runs/<name>-<YYYYmmdd-HHMMSS>/ below the current folder (with -2, -3 … where it is taken).
std::filesystem::path make_run_folder(const std::string& name);
/// The folder of --out, made where it is missing. Throws ConfigError where it cannot be written: before the
/// training, so that this is not in vain.
std::filesystem::path out_folder(const std::string& out);
/// The same of a run's folder; refuses one that holds another run's files, or a user's of the same names, but
/// that of the run that it goes on from, and of a run that never began.
std::filesystem::path new_out_folder(const std::string& out, const std::string& resume);
/// Whether the two name one folder.
bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other);

/// A run's folder is its own while this lives; throws ConfigError where another process has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int handle_;  ///< −1 where the folder cannot be opened; it is locked only where its file system can
};

/// What a file held before it was written over.
class Overwritten {
 public:
  explicit Overwritten(std::filesystem::path path);
  void give_back() const;  ///< where there was none, none is left

 private:
  std::filesystem::path path_;
  std::optional<std::string> former_;  ///< empty: there was none
};

void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace gossamer::node
