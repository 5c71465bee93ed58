#pragma once
// Storage is the part of a file system that checkpoints go by. PosixStorage is the real one; SimulatedStorage
// loses what was not synced, where its machine's power fails.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace gossamer::node {

/// A file could not be written, read or removed: which, what was tried, and what the system said.
class StorageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file that is being written, from its start on.
class StoredFile {
 public:
  virtual ~StoredFile() = default;  ///< closes it, whatever became of it
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;  ///< what was written survives from here on
};

/// All of it throws StorageError.
class Storage {
 public:
  using Path = std::filesystem::path;
  virtual ~Storage() = default;
  virtual std::unique_ptr<StoredFile> create(const Path& file) = 0;  ///< empty; in place of one of the name
  virtual void rename(const Path& from, const Path& to) = 0;  ///< within a folder; in place of one there
  virtual void sync_folder(const Path& folder) = 0;           ///< its names survive from here on
  virtual void make_folders(const Path& folder) = 0;          ///< with those above; those that are there stay
  virtual void remove(const Path& path) = 0;  ///< a file or an empty folder; none there: nothing
  virtual std::vector<std::string> names(
      const Path& folder) const = 0;  ///< ascending; none where there is no folder
  virtual std::uint64_t size(const Path& file) const = 0;
  /// `into` is filled from an offset on.
  virtual void read(const Path& file, std::uint64_t offset, std::span<std::byte> into) const = 0;
};

/// The file is that text from here on, or as it was.
void replace_file(Storage& storage, const Storage::Path& file, std::string_view text);

class PosixStorage final : public Storage {
 public:
  std::unique_ptr<StoredFile> create(const Path& file) override;
  void rename(const Path& from, const Path& to) override;
  void sync_folder(const Path& folder) override;
  void make_folders(const Path& folder) override;
  void remove(const Path& path) override;
  std::vector<std::string> names(const Path& folder) const override;
  std::uint64_t size(const Path& file) const override;
  void read(const Path& file, std::uint64_t offset, std::span<std::byte> into) const override;
};

}  // namespace gossamer::node
