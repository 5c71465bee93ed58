#define XXH_INLINE_ALL
#include "text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gossamer::optim {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kSettled{200};  // since a file that was cut short grew, until it is tried
constexpr std::chrono::seconds kComing{60};         // until it is taken for truncated
constexpr std::size_t kPassed = std::size_t{1} << 16;
constexpr std::size_t kHeadBytes = std::size_t{1} << 14;  // read at once
constexpr std::size_t kMostHead = 2 * kMostPiece;         // of which a line breaks, or it is too long
constexpr std::chrono::seconds kHeadPatience{5};          // without more of a text, until what is there does
constexpr std::chrono::milliseconds kHeadLook{20};

/// Whether there is a line below the first one.
bool has_row(std::string_view text) {
  std::size_t lines = 0;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos && lines < 2; at = end + 1)
    lines += text.substr(at, end - at).find_first_not_of(" \t\r") != text.npos;
  return lines == 2;
}

/// One text from its beginning to its end.
class OneText final : public TextSource {
 public:
  OneText(std::unique_ptr<RawBytes> bytes, std::string name, CanStart can_start)
      : cutter_(std::move(bytes), std::move(name), std::move(can_start)) {}
  Found next(std::size_t size, TextPiece& piece) override {
    return cutter_.next(size, false, piece) ? Found::piece : Found::end;
  }

 private:
  LineCutter cutter_;
};

/// What stays the same where a file is renamed, and is another for one that takes its name.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::int64_t born_s = 0, born_ns = 0;  ///< 0: the file system does not say
  bool operator==(const FileIdentity&) const = default;
};

struct FileState {
  FileIdentity identity;
  std::uint64_t size = 0;
  bool regular = false;
};
/// None where it is gone.
std::optional<FileState> state_of(const std::string& path) {
  struct statx now {};
  constexpr unsigned kAsked = STATX_TYPE | STATX_SIZE | STATX_INO | STATX_BTIME;
  if (::statx(AT_FDCWD, path.c_str(), 0, kAsked, &now) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw OptimError(path + ": cannot be read: " + std::strerror(errno));
  }
  FileIdentity identity{(std::uint64_t{now.stx_dev_major} << 32) | now.stx_dev_minor, now.stx_ino, 0, 0};
  if (now.stx_mask & STATX_BTIME) {
    identity.born_s = now.stx_btime.tv_sec;
    identity.born_ns = now.stx_btime.tv_nsec;
  }
  return FileState{identity, now.stx_size, S_ISREG(now.stx_mode)};
}

/// A file, or the files of a folder in the order of their names; with `follow` again and again from where
/// their whole lines ended.
class FileTexts final : public TextSource {
 public:
  FileTexts(std::string path, bool follow, CanStart can_start)
      : path_(std::move(path)),
        can_start_(std::move(can_start)),
        follow_(follow),
        folder_(fs::is_directory(path_)) {
    if (!folder_ && !fs::exists(path_)) open_file_bytes(path_);  // says why
  }

  Found next(std::size_t size, TextPiece& piece) override {
    for (;;) {
      if (cutter_ && cut(size, piece)) {
        current_->position = cutter_->position() - base();
        current_->line = cutter_->line();
        return Found::piece;
      }
      if (cutter_) current_->done = !follow_;
      cutter_.reset();
      if (open_next()) continue;
      if (!follow_) return Found::end;
      looked_ = false;
      return Found::nothing_yet;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct File {
    FileIdentity identity;
    std::string name;                                ///< that it was found under first
    std::uint64_t position = 0, line = 1, size = 0;  ///< up to where it was read; of what was found
    bool regular = false, packed = false, done = false;
    bool coming = false;            ///< it is packed, and breaks off
    std::uint64_t opened_size = 0;  ///< of a packed one, when it was opened last
    Clock::time_point grew{};
  };

  /// Tells samples of different files apart, wherever the folder is.
  std::uint64_t base() const {
    if (!folder_) return 0;
    return XXH3_64bits(current_->name.data(), current_->name.size());
  }

  /// The next piece of the file under way. One that is packed may still be on its way here.
  bool cut(std::size_t size, TextPiece& piece) {
    try {
      return cutter_->next(size, follow_ && !current_->packed, piece);
    } catch (const Truncated&) {
      if (!follow_) throw;
      const std::optional<FileState> state = state_of(path_of_current_);
      const bool there = state && state->identity == current_->identity;  // else it is looked for again
      if (there) note_size(*current_, state->size);
      if (there && Clock::now() >= current_->grew + kComing) throw;
      current_->coming = true;
      return false;
    }
  }

  static void note_size(File& file, std::uint64_t size) {
    if (file.size != size) file.grew = Clock::now();
    file.size = size;
  }

  std::vector<std::string> listed() const {
    if (!folder_) return {path_};
    std::vector<std::string> paths;
    std::error_code error;
    for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      if (entry->is_regular_file(gone) && !entry->path().filename().string().starts_with('.'))
        paths.push_back(entry->path().string());
    }
    if (error) throw OptimError(path_ + ": cannot be read: " + error.message());
    return paths;
  }

  /// What was known of the file before, under whatever path.
  File known(const std::string& path, const FileIdentity& identity) {
    auto found = files_.find(path);
    if (found == files_.end() || found->second.identity != identity)
      found = std::find_if(files_.begin(), files_.end(),
                           [&](const auto& file) { return file.second.identity == identity; });
    if (found != files_.end()) return found->second;
    for (const File& file : gone_)
      if (file.identity == identity) return file;
    return {.identity = identity, .name = fs::path(path).filename().string()};
  }

  /// The files as they are now.
  void look() {
    std::map<std::string, File> now;
    for (const std::string& path : listed()) {
      const std::optional<FileState> state = state_of(path);
      if (!state && !follow_) open_file_bytes(path);  // says why
      if (!state) continue;
      File file = known(path, state->identity);
      note_size(file, state->size);
      file.regular = state->regular;
      if (file.regular && !file.packed && !file.done && file.size < file.position)
        throw OptimError(path + ": has " + std::to_string(file.size) + " bytes after " +
                         std::to_string(file.position) + " were read; expected that files only grow");
      now.emplace(path, std::move(file));
    }
    gone_.clear();
    for (const auto& before : files_) {
      const File& file = before.second;
      const bool is_here = std::any_of(
          now.begin(), now.end(), [&](const auto& other) { return other.second.identity == file.identity; });
      if (file.identity.born_s != 0 && !is_here) gone_.push_back(file);
    }
    files_ = std::move(now);
    looked_ = true;
    next_ = files_.begin();
  }

  /// Whether there is something in it that was not read.
  bool has_more(const File& file) const {
    if (file.done) return false;
    if (!file.regular) return true;
    if (!follow_) return file.size > 0;
    if (!file.packed) return file.size > file.position;
    const auto still = Clock::now() - file.grew;
    if (file.size != file.opened_size) return !file.coming || still >= kSettled;
    return file.coming && still >= kComing;
  }

  bool open_next() {
    if (!looked_) look();
    while (next_ != files_.end()) {
      const std::string& path = next_->first;
      File& file = next_++->second;
      if (!has_more(file)) continue;
      current_ = &file;
      path_of_current_ = path;
      if (open(path, file)) return true;
    }
    return false;
  }

  /// false: it has gone since it was looked for, or another has its name.
  bool open(const std::string& path, File& file) {
    const auto is_another = [&] {
      const std::optional<FileState> state = follow_ ? state_of(path) : std::nullopt;
      return follow_ && (!state || state->identity != file.identity);
    };
    if (is_another()) return false;
    try {
      if (file.position == 0) file.packed = begins_as_gzip(path);
      auto bytes = open_file_bytes(path, file.packed ? 0 : file.position);
      if (is_another()) return false;
      if (file.packed) pass_over(*bytes, file.position);
      cutter_.emplace(std::move(bytes), path, can_start_, base() + file.position, file.line,
                      file.position == 0, Clock::now() >= file.grew + kHeadPatience);
    } catch (const OptimError&) {
      if (is_another()) return false;
      throw;
    }
    file.opened_size = file.size;
    file.coming = false;
    return true;
  }

  /// What was read before of what is packed.
  static void pass_over(RawBytes& bytes, std::uint64_t count) {
    std::vector<char> passed(std::min<std::uint64_t>(count, kPassed));
    while (count > 0) {
      const std::size_t got = bytes.read(std::span(passed).first(std::min<std::uint64_t>(count, kPassed)));
      if (got == 0) return;
      count -= got;
    }
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
  CanStart can_start_;
  bool follow_, folder_, looked_ = false;
  std::map<std::string, File> files_;
  std::map<std::string, File>::iterator next_;
  std::vector<File> gone_;  ///< since the last look: one may have been renamed during this one
  std::string path_of_current_;
  File* current_ = nullptr;
  std::optional<LineCutter> cutter_;
};

}  // namespace

LineCutter::LineCutter(std::unique_ptr<RawBytes> source, std::string name, CanStart can_start,
                       std::uint64_t position, std::uint64_t first_line, bool starts_text, bool settled)
    : source_(std::move(source)),
      name_(std::move(name)),
      can_start_(std::move(can_start)),
      position_(position),
      line_(first_line),
      starts_(starts_text),
      settled_(settled) {}

/// Whether more of the text, or its end, is there within kHeadPatience.
bool LineCutter::more_comes() {
  const auto until = std::chrono::steady_clock::now() + kHeadPatience;
  while (!source_->ready()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kHeadLook);
  }
  return true;
}

/// Whether the text can start, or has to with the rows that are there, as no more came for long; false where
/// it ended before.
bool LineCutter::read_head() {
  while (!can_start_(head_)) {
    if (head_.size() >= kMostHead || (has_row(head_) && !more_comes())) return true;
    const std::size_t had = head_.size();
    head_.resize(had + kHeadBytes);
    const std::size_t got = source_->read(std::span(head_).subspan(had));
    head_.resize(had + got);
    head_ended_ = got == 0;
    if (head_ended_) return settled_ && has_row(head_);
  }
  return true;
}

/// As the source's; what was read to see whether the text can start comes first.
std::size_t LineCutter::read(std::span<char> out) {
  if (ahead_ == head_.size()) return source_->read(out);
  const std::size_t count = head_.copy(out.data(), out.size(), ahead_);
  ahead_ += count;
  if (ahead_ == head_.size()) head_ = {}, ahead_ = 0;
  return count;
}

bool LineCutter::next(std::size_t size, bool whole_lines, TextPiece& piece) {
  if (starts_ && can_start_ && !read_head() && whole_lines) return false;
  if (starts_) piece.head.assign(head_, 0, head_ended_ && !whole_lines ? head_.npos : head_.rfind('\n') + 1);
  const std::size_t room = std::max(size, rest_.size() + 1);
  auto bytes = std::make_unique_for_overwrite<char[]>(room + kTextPadding);
  std::memcpy(bytes.get(), rest_.data(), rest_.size());
  std::size_t have = rest_.size(), end = 0;  // rest_ has no line break
  while (have < room && !ended_ && (end == 0 || ready())) {
    const std::size_t got = read({bytes.get() + have, room - have});
    if (got == 0) ended_ = true;
    const std::string_view now(bytes.get() + have, got);
    if (const std::size_t last = now.rfind('\n'); last != now.npos) end = have + last + 1;
    have += got;
  }
  if (ended_ && !whole_lines) end = have;
  if (end == 0 && have == room)
    throw OptimError(name_ + ":" + std::to_string(line_) + ":1: found a line of more than " +
                     std::to_string(size) + " bytes, expected line breaks" +
                     (size < kMostPiece ? ", or more memory for such lines" : ": none may be longer"));
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

std::unique_ptr<TextSource> open_text(const SampleStreamSpec& spec, const std::atomic<bool>& stop,
                                      CanStart can_start) {
  if (spec.path.empty() == spec.command.empty())
    throw OptimError("data: found " +
                     std::string(spec.path.empty() ? "neither a path nor" : "both a path and") +
                     " a command, expected one of them");
  if (!spec.command.empty()) {
    const std::string name = spec.command_key + " \"" + spec.command + "\"";
    return std::make_unique<OneText>(open_command_bytes(spec.command, name, stop), name,
                                     std::move(can_start));
  }
  if (spec.path == "-")
    return std::make_unique<OneText>(open_input_bytes(stop), "standard input", std::move(can_start));
  return std::make_unique<FileTexts>(spec.path, spec.follow, std::move(can_start));
}

}  // namespace gossamer::optim
