#include "gossamer/node/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "gossamer/node/errors.h"
#include "gossamer/optim/finite.h"
#include "safetensors_format.h"

namespace gossamer::node {
namespace {

constexpr int kMostLinks = 40;

namespace fs = std::filesystem;

/// A file that is removed unless it has been renamed; its descriptor is closed in any case.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : target_(path) {
    std::random_device random;
    do {
      path_ = fmt::format("{}.tmp-{:08x}", path, random());
      file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);  // mkstemp heeds no umask
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) fail("cannot be created");
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    if (!write_fully(file_, bytes)) fail("cannot be written");
  }
  /// The name appears only once the bytes are on the disk; the folder is synced so that the name lasts.
  void publish() {
    if (::fsync(file_) != 0) fail("cannot be synced");
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot be closed");
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed");
    path_.clear();
    const fs::path folder = fs::path(target_).parent_path();
    const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    ::fsync(handle);
    ::close(handle);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(target_ + ": its temporary file " + what + ": " +
                             std::system_category().message(errno));
  }
  std::string target_, path_;
  int file_ = -1;
};

/// A file's bytes; failures name it.
ByteSource open_source(const std::string& path) {
  const auto fail = [path](const std::string& what) { throw ConfigError(path + ": " + what); };
  std::error_code error;
  if (!fs::exists(path, error)) fail("no such file; expected a safetensors file");
  if (!fs::is_regular_file(path, error)) fail("is no regular file; expected a safetensors file");
  const auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (!*file) fail("cannot be read: " + std::system_category().message(errno));
  return {fs::file_size(path, error), [file, fail](std::uint64_t offset, std::span<std::byte> into) {
            file->seekg(static_cast<std::streamoff>(offset));
            if (!file->read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size())))
              fail("cannot be read");
          }};
}

}  // namespace

std::string replaced_file(const std::string& path) {
  std::error_code unknown;
  const fs::file_status found = fs::status(path, unknown);
  if (fs::exists(found) && !fs::is_regular_file(found) && !fs::is_directory(found))
    throw ConfigError(
        path + ": is no regular file, and what is written takes its place; expected the name of a file");
  fs::path target = path;  // which a link may name before it is there
  for (int links = 0; fs::is_symlink(target, unknown); ++links) {
    if (links == kMostLinks) throw ConfigError(path + ": is a symbolic link that leads to itself");
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target.string();
}

void write_safetensors(const std::string& path, const std::vector<optim::Layer>& layers,
                       std::span<const float> x, const std::map<std::string, std::string>& metadata) {
  TemporaryFile file(replaced_file(path));
  BufferedSink buffered([&](std::span<const std::byte> bytes) { file.write(bytes); });
  write_safetensors(buffered.sink(), layers, std::as_bytes(x), metadata);
  buffered.flush();
  file.publish();
}

void check_writable(const std::string& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) throw ConfigError(path + ": is a folder; expected the name of a file");
  try {
    const TemporaryFile file(path);
  } catch (const std::runtime_error& error) {
    throw ConfigError(std::string(error.what()) + "; expected a folder that can be written");
  }
}

void check_replaceable(const std::string& path) { check_writable(replaced_file(path)); }

std::vector<optim::Layer> layers_in(const std::string& path) {
  const SafetensorsReader reader(path, open_source(path));
  std::map<std::size_t, optim::Tensor> by_place;
  for (const auto& [name, record] : reader.records()) by_place[record.begin] = {name, record.shape, 0};
  optim::Layer all{"all", 0, 0, {}};
  for (auto& [begin, tensor] : by_place) {
    tensor.offset = all.size;
    std::size_t floats = 1;
    for (const std::size_t n : tensor.shape) floats *= n;
    all.size += floats;
    all.tensors.push_back(std::move(tensor));
  }
  return {std::move(all)};
}

void read_safetensors(const std::string& path, const std::vector<optim::Layer>& layers, std::span<float> x) {
  SafetensorsReader(path, open_source(path)).read(layers, std::as_writable_bytes(x));
}

void check_finite(const std::string& path, const std::vector<optim::Layer>& layers,
                  std::span<const float> x) {
  if (optim::all_finite(x)) return;
  for (const optim::Layer& layer : layers)
    for (const optim::Tensor& tensor : layer.tensors) {
      std::size_t size = 1;
      for (const std::size_t n : tensor.shape) size *= n;
      const auto entries = x.subspan(tensor.offset, size);
      const auto wrong =
          std::find_if_not(entries.begin(), entries.end(), [](float v) { return std::isfinite(v); });
      if (wrong != entries.end())
        throw ConfigError(fmt::format(
            "{}: tensor '{}' holds {} at entry {}; expected finite numbers: a run that had diverged may have "
            "written it, use a model or checkpoint from before",
            path, tensor.name, *wrong, wrong - entries.begin()));
    }
}

}  // namespace gossamer::node
