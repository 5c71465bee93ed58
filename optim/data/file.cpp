#include "file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr unsigned kBuffer = 1U << 18;
constexpr std::uint64_t kMostRatio = 1032;  // deflate cannot pack better (zlib technical notes)

gzFile handle(void* gz) { return static_cast<gzFile>(gz); }

}  // namespace

InputFile::InputFile(std::string path, const std::string& advice) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_directory(path_, error))
    throw OptimError(path_ + ": found a directory, expected a file" + advice);
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  most_bytes_ = error ? UINT64_MAX : size > UINT64_MAX / kMostRatio ? UINT64_MAX : size * kMostRatio;
  errno = 0;
  gz_ = gzopen(path_.c_str(), "rb");
  if (gz_ == nullptr) throw OptimError(path_ + ": cannot be opened: " + std::strerror(errno) + advice);
  gzbuffer(handle(gz_), kBuffer);
}

InputFile::~InputFile() { gzclose(handle(gz_)); }

std::size_t InputFile::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto part = static_cast<unsigned>(std::min<std::size_t>(out.size() - done, 1U << 30));
    const int got = gzread(handle(gz_), out.data() + done, part);
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got == static_cast<int>(part)) continue;
    int code = Z_OK;
    const char* text = gzerror(handle(gz_), &code);
    if (code == Z_BUF_ERROR)
      throw OptimError(path_ + ": truncated: the compressed data breaks off at byte " +
                       std::to_string(gzoffset(handle(gz_))) + ", the end of the file; fetch the file again");
    if (code != Z_OK && code != Z_STREAM_END)
      throw OptimError(path_ + ": damaged compressed data: " + text + "; fetch the file again");
    break;
  }
  return done;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace gossamer::optim
