#pragma once
// Reading of files that may be gzip-compressed (recognised by their content, not by their name).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

class RawBytes;

/// A file read from front to back. Every error names the file.
class InputFile {
 public:
  /// Throws OptimError where the file cannot be opened; `advice` is added to the message.
  explicit InputFile(std::string path, const std::string& advice = "");
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// As many bytes as there are, up to out.size(); fewer at the end of the file alone. Throws OptimError
  /// where the compressed data is damaged, ends before its checksum, or has anything but zeros behind it: who
  /// reads to the end has the whole of it.
  std::size_t read(std::span<std::uint8_t> out);
  /// Upper bound of the bytes that the whole file can unpack to: a header that claims more is wrong.
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  std::string path_;
  std::unique_ptr<RawBytes> bytes_;
  std::uint64_t most_bytes_;
};

bool file_exists(const std::string& path);

}  // namespace gossamer::optim
