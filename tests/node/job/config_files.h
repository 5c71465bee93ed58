#pragma once
// Files of one test, in a folder that goes with it, and what is said of them.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>

namespace gossamer::test {

/// Whether the message holds the words; where it does not, the message is what the failed check prints.
struct Said {
  std::string message, words;
  bool found;
  explicit operator bool() const { return found; }
  friend std::ostream& operator<<(std::ostream& out, const Said& said) {
    return out << "expected: " << said.words << "\nin:       " << said.message;
  }
};
inline Said says(const std::string& message, const std::string& words) {
  return {message, words, message.find(words) != std::string::npos};
}

/// What a refusal says: the words; nothing where these are empty.
inline Said says_if_any(const std::string& message, const std::string& words) {
  return {message, words, words.empty() ? message.empty() : message.find(words) != std::string::npos};
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gossamer-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  /// Writes the file and gives its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace gossamer::test
