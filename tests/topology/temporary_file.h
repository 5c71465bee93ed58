#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace gossamer::topology::test {

/// A file with that text, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& ending = "") {
    std::string name = "/tmp/gossamer_graph_XXXXXX" + ending;
    const int descriptor = mkstemps(name.data(), static_cast<int>(ending.size()));
    if (descriptor < 0) throw std::runtime_error(name + ": " + std::strerror(errno));
    close(descriptor);
    path_ = name;
    std::ofstream(path_) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gossamer::topology::test
