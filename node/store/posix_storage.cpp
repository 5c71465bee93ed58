#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "byte_stream.h"
#include "checkpoint_names.h"
#include "storage.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

const char* advice_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or keep fewer checkpoints";
    case EROFS:
      return "; expected a file system that can be written";
    case EACCES:
    case EPERM:
      return "; expected that this user may write there";
    case EIO:
      return "; the disk may be failing";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

[[noreturn]] void fail_storage(const fs::path& path, const char* tried, int error) {
  throw StorageError(fmt::format("{} cannot be {}: {}{}", path.string(), tried,
                                 std::generic_category().message(error), advice_for(error)));
}

int open_retrying(const fs::path& path, int flags) {
  int file = -1;
  do {
    file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (file < 0 && errno == EINTR);
  return file;
}

int sync_retrying(int file) {
  int result = 0;
  do {
    result = ::fsync(file);
  } while (result != 0 && errno == EINTR);
  return result;
}

/// An open file or folder.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* tried) : file_(open_retrying(path, flags)) {
    if (file_ < 0) fail_storage(path, tried, errno);
  }
  ~Descriptor() { ::close(file_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

class PosixFile final : public StoredFile {
 public:
  explicit PosixFile(fs::path path)
      : path_(std::move(path)), file_(path_, O_WRONLY | O_CREAT | O_TRUNC, "created") {}
  void write(std::span<const std::byte> bytes) override {
    if (!write_fully(file_.get(), bytes)) fail_storage(path_, "written", errno);
  }
  /// Once it has failed nothing is known of what was written, however often it is tried again.
  void sync() override {
    if (sync_retrying(file_.get()) != 0) fail_storage(path_, "synced", errno);
  }

 private:
  fs::path path_;
  Descriptor file_;
};

}  // namespace

std::unique_ptr<StoredFile> PosixStorage::create(const Path& file) {
  return std::make_unique<PosixFile>(file);
}

void replace_file(Storage& storage, const Storage::Path& file, std::string_view text) {
  const Storage::Path temporary = file.parent_path() / temporary_name(file.filename().string());
  try {
    const std::unique_ptr<StoredFile> out = storage.create(temporary);
    out->write(std::as_bytes(std::span(text)));
    out->sync();
  } catch (const StorageError&) {
    storage.remove(temporary);
    throw;
  }
  storage.rename(temporary, file);
  storage.sync_folder(file.parent_path());
}

void PosixStorage::rename(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_storage(from, fmt::format("renamed to {}", to.filename().string()).c_str(), errno);
}

void PosixStorage::sync_folder(const Path& folder) {
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY, "opened");
  // EINVAL: a file system whose folders need none, or know none
  if (sync_retrying(opened.get()) != 0 && errno != EINVAL) fail_storage(folder, "synced", errno);
}

void PosixStorage::make_folders(const Path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_storage(folder, "made", error.value());
}

void PosixStorage::remove(const Path& path) {
  if (::remove(path.c_str()) != 0 && errno != ENOENT) fail_storage(path, "removed", errno);
}

std::vector<std::string> PosixStorage::names(const Path& folder) const {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return {};
  std::vector<std::string> names;
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) fail_storage(folder, "listed", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t PosixStorage::size(const Path& file) const {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) fail_storage(file, "measured", error.value());
  return bytes;
}

void PosixStorage::read(const Path& file, std::uint64_t offset, std::span<std::byte> into) const {
  const Descriptor opened(file, O_RDONLY, "opened");
  while (!into.empty()) {
    const ssize_t taken = ::pread(opened.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) fail_storage(file, "read", errno);
    if (taken == 0)
      throw StorageError(
          fmt::format("{} ends after {} bytes; expected {} more", file.string(), offset, into.size()));
    offset += static_cast<std::uint64_t>(taken);
    into = into.subspan(static_cast<std::size_t>(taken));
  }
}

}  // namespace gossamer::node
