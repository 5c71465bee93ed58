#pragma once
// SimulatedStorage is a disk behind a page cache: what was not synced is lost, torn or kept, as drawn, where
// the power fails.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage.h"

namespace gossamer::node {

/// The machine that used the storage is no more; so are the objects that used it.
class PowerFailure : public std::runtime_error {
 public:
  PowerFailure() : runtime_error("the power failed") {}
};

/// In memory, the same for the same seed and calls; one thread at a time. Every call counts as an operation,
/// of a write each piece of kPiece bytes, whether it succeeds or not.
///
/// What survives a failure of power: of a file that was written to since it was synced what it was then, or
/// what it is, or a beginning of that in which blocks may be zero; of the names that were made, changed and
/// removed in a folder since that was synced any of these changes without the others, a rename as a whole.
class SimulatedStorage final : public Storage {
 public:
  static constexpr std::size_t kPiece = 4096;

  explicit SimulatedStorage(std::uint64_t seed);
  ~SimulatedStorage() override;

  /// The power fails in the n-th operation from here on (1: the next), which has no effect.
  void crash_after(std::uint64_t n) { crash_at_ = counts_.operations + n; }
  bool crashed() const { return crashed_; }
  /// The power is back; what survived is on the disk. Files that were open are of no use.
  void restart();
  /// The n-th operation from here on, and none after it, throws StorageError with this for the system's
  /// words.
  void fail(std::uint64_t n, std::string why);
  /// Bytes of all files together; none: no end.
  void limit(std::optional<std::uint64_t> bytes) { capacity_ = bytes; }

  struct Counts {
    std::uint64_t operations = 0, writes = 0, syncs = 0, names = 0;  ///< names: made, changed, removed
    std::uint64_t bytes = 0;                                         ///< written
    std::uint64_t failures = 0, full = 0, crashes = 0;
    std::uint64_t lost_names = 0, torn_files = 0;  ///< by crashes
  };
  const Counts& counts() const { return counts_; }
  std::uint64_t used() const;  ///< bytes of all files that have a name
  /// Inverts a bit of a file, on the disk.
  void flip(const Path& file, std::uint64_t bit);
  /// Cuts a file short.
  void cut(const Path& file, std::uint64_t bytes);

  std::unique_ptr<StoredFile> create(const Path& file) override;
  void rename(const Path& from, const Path& to) override;
  void sync_folder(const Path& folder) override;
  void make_folders(const Path& folder) override;
  void remove(const Path& path) override;
  std::vector<std::string> names(const Path& folder) const override;
  std::uint64_t size(const Path& file) const override;
  void read(const Path& file, std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  struct Node;
  class File;
  using NodePtr = std::shared_ptr<Node>;

  void operation(const Path& path, const char* tried) const;
  Node* find(const Path& path) const;
  Node& folder_of(const Path& path, const char* tried) const;
  Node& file_at(const Path& path, const char* tried) const;
  void append(Node& file, const Path& path, std::span<const std::byte> bytes);
  void survive(Node& node);
  void survive_names(Node& folder);
  void survive_bytes(Node& file);

  NodePtr root_;
  std::mt19937_64 random_;
  std::optional<std::uint64_t> capacity_;
  std::uint64_t crash_at_ = 0, fail_at_ = 0;  ///< numbers of operations; 0: none
  std::string failure_;
  std::uint64_t lifetime_ = 0;  ///< how often the power came back
  double kept_share_ = 0.5;     ///< of the changes that were not synced, in one crash
  mutable bool crashed_ = false;
  mutable Counts counts_;
};

}  // namespace gossamer::node
