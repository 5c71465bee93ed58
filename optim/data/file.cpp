#include "file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "text.h"

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kMostRatio = 1032;  // deflate cannot pack better (zlib technical notes)

}  // namespace

InputFile::InputFile(std::string path, const std::string& advice) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_directory(path_, error))
    throw OptimError(path_ + ": found a directory, expected a file" + advice);
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  most_bytes_ = error ? UINT64_MAX : size > UINT64_MAX / kMostRatio ? UINT64_MAX : size * kMostRatio;
  try {
    bytes_ = open_file_bytes(path_);
  } catch (const OptimError& e) {
    throw OptimError(e.what() + advice);
  }
}

InputFile::~InputFile() = default;

std::size_t InputFile::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t got = bytes_->read({reinterpret_cast<char*>(out.data()) + done, out.size() - done});
    if (got == 0) break;
    done += got;
  }
  return done;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace gossamer::optim
