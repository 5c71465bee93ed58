#define XXH_INLINE_ALL
#include "text.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace gossamer::optim {
namespace {

namespace fs = std::filesystem;

/// One text from its beginning to its end.
class OneText final : public TextSource {
 public:
  OneText(std::unique_ptr<RawBytes> bytes, std::string name) : cutter_(std::move(bytes), std::move(name)) {}
  Found next(std::size_t size, TextPiece& piece) override {
    return cutter_.next(size, false, piece) ? Found::piece : Found::end;
  }

 private:
  LineCutter cutter_;
};

/// A file, or the files of a folder in the order of their names; with `follow` again and again from where
/// their whole lines ended.
class FileTexts final : public TextSource {
 public:
  FileTexts(std::string path, bool follow)
      : path_(std::move(path)), follow_(follow), folder_(fs::is_directory(path_)) {
    if (!folder_ && !fs::exists(path_)) open_file_bytes(path_);  // says why
  }

  Found next(std::size_t size, TextPiece& piece) override {
    for (;;) {
      if (cutter_ && cutter_->next(size, follow_ && !current_->packed, piece)) {
        current_->position = cutter_->position() - base();
        current_->line = cutter_->line();
        return Found::piece;
      }
      if (cutter_) current_->done = current_->packed || !follow_;
      cutter_.reset();
      if (open_next()) continue;
      if (!follow_) return Found::end;
      looked_ = false;
      return Found::nothing_yet;
    }
  }

 private:
  struct File {
    std::string path;
    std::uint64_t position = 0, line = 1, size = 0;  ///< up to where it was read; of what was found
    bool packed = false, done = false;
  };

  /// Tells samples of different files apart, wherever the folder is.
  std::uint64_t base() const {
    if (!folder_) return 0;
    const std::string name = fs::path(current_->path).filename().string();
    return XXH3_64bits(name.data(), name.size());
  }

  /// The files as they are now.
  void look() {
    std::vector<std::string> paths;
    if (!folder_) paths.push_back(path_);
    std::error_code error;
    if (folder_)
      for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error))
        if (entry->is_regular_file() && !entry->path().filename().string().starts_with('.'))
          paths.push_back(entry->path().string());
    if (error) throw OptimError(path_ + ": cannot be read: " + error.message());
    for (const std::string& path : paths) {
      File& file = files_[path];
      file.path = path;
      file.size = fs::file_size(path, error);
      if (error) throw OptimError(path + ": cannot be read: " + error.message());
      if (!file.packed && !file.done && file.size < file.position)
        throw OptimError(path + ": has " + std::to_string(file.size) + " bytes after " +
                         std::to_string(file.position) + " were read; expected that files only grow");
    }
    looked_ = true;
    next_ = files_.begin();
  }

  bool open_next() {
    if (!looked_) look();
    for (; next_ != files_.end(); ++next_) {
      File& file = next_->second;
      const bool regular = folder_ || fs::is_regular_file(file.path);
      if (file.done || (regular && file.size <= file.position && (follow_ || file.size == 0))) continue;
      current_ = &file;
      if (file.position == 0) file.packed = begins_as_gzip(file.path);
      auto bytes = open_file_bytes(file.path, file.position);
      cutter_.emplace(std::move(bytes), file.path, base() + file.position, file.line, file.position == 0);
      ++next_;
      return true;
    }
    return false;
  }

  static bool begins_as_gzip(const std::string& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    const int first = std::fgetc(file), second = std::fgetc(file);
    std::fclose(file);
    return first == 0x1f && second == 0x8b;
  }

  std::string path_;
  bool follow_, folder_, looked_ = false;
  std::map<std::string, File> files_;
  std::map<std::string, File>::iterator next_;
  File* current_ = nullptr;
  std::optional<LineCutter> cutter_;
};

}  // namespace

LineCutter::LineCutter(std::unique_ptr<RawBytes> source, std::string name, std::uint64_t position,
                       std::uint64_t first_line, bool starts_text)
    : source_(std::move(source)),
      name_(std::move(name)),
      position_(position),
      line_(first_line),
      starts_(starts_text) {}

bool LineCutter::next(std::size_t size, bool whole_lines, TextPiece& piece) {
  const std::size_t room = std::max(size, rest_.size() + 1);
  auto bytes = std::make_unique_for_overwrite<char[]>(room + kTextPadding);
  std::memcpy(bytes.get(), rest_.data(), rest_.size());
  std::size_t have = rest_.size(), end = 0;  // rest_ has no line break
  while (have < room && !ended_ && (end == 0 || source_->ready())) {
    const std::size_t got = source_->read({bytes.get() + have, room - have});
    if (got == 0) ended_ = true;
    const std::string_view now(bytes.get() + have, got);
    if (const std::size_t last = now.rfind('\n'); last != now.npos) end = have + last + 1;
    have += got;
  }
  if (ended_ && !whole_lines) end = have;
  if (end == 0 && have == room)
    throw OptimError(name_ + ":" + std::to_string(line_) + ":1: found a line of more than " +
                     std::to_string(size) + " bytes, expected line breaks, or more memory for such lines");
  rest_.assign(bytes.get() + end, have - end);
  if (end == 0) return false;
  std::memset(bytes.get() + end, 0, kTextPadding);
  piece.name = name_;
  piece.first_line = line_;
  piece.position = position_;
  piece.starts_text = std::exchange(starts_, false);
  piece.bytes = std::move(bytes);
  piece.size = end;
  piece.skip = 0;
  piece.line_breaks = count_of(piece.view(), '\n');
  position_ += end;
  line_ += piece.line_breaks;
  return true;
}

std::unique_ptr<TextSource> open_text(const SampleStreamSpec& spec, const std::atomic<bool>& stop) {
  if (spec.path.empty() == spec.command.empty())
    throw OptimError("data: found " +
                     std::string(spec.path.empty() ? "neither a path nor" : "both a path and") +
                     " a command, expected one of them");
  if (!spec.command.empty())
    return std::make_unique<OneText>(open_command_bytes(spec.command, stop),
                                     "data.command \"" + spec.command + "\"");
  if (spec.path == "-") return std::make_unique<OneText>(open_input_bytes(stop), "standard input");
  return std::make_unique<FileTexts>(spec.path, spec.follow);
}

}  // namespace gossamer::optim
