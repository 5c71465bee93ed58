#pragma once
// Where the text of samples comes from: bytes of files, input or a command, cut into pieces of whole lines.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gossamer/optim/sample_stream.h"

namespace gossamer::optim {

/// Zero bytes that follow a piece's text, where scanners stop: no scanner reads more at once.
inline constexpr std::size_t kTextPadding = 128;

/// Bytes that are read at once at most, and no line is longer than what is read at once.
inline constexpr std::size_t kMostPiece = 1U << 19;

/// Whole lines of one text, the last one with its line break unless the text ends without.
struct TextPiece {
  std::string name;              ///< for messages
  std::uint64_t first_line = 1;  ///< number of its first line
  std::uint64_t position = 0;    ///< of its first byte: the offset in the text, plus what tells texts apart
  bool starts_text = false;
  std::string head{};  ///< of a text that starts, as CanStart says: it may be longer than the piece
  std::unique_ptr<char[]> bytes;  ///< then kTextPadding zero bytes
  std::size_t size = 0;
  std::size_t skip = 0;  ///< first bytes that hold no samples
  std::uint64_t line_breaks = 0;
  std::string_view view() const { return {bytes.get(), size}; }
};

/// How often c is in the text. Counts of 255 bytes fit a byte each, so that whole vectors of them are added.
inline std::size_t count_of(std::string_view text, char c) {
  constexpr std::size_t kCountLanes = 32, kCountBlock = 255 * kCountLanes;
  std::size_t total = 0, at = 0;
  for (; at + kCountLanes <= text.size();) {
    std::uint8_t counts[kCountLanes] = {};
    const std::size_t end = at + std::min(kCountBlock, (text.size() - at) / kCountLanes * kCountLanes);
    for (; at < end; at += kCountLanes)
      for (std::size_t lane = 0; lane < kCountLanes; ++lane)
        counts[lane] = static_cast<std::uint8_t>(counts[lane] + (text[at + lane] == c));
    for (const std::uint8_t count : counts) total += count;
  }
  for (; at < text.size(); ++at) total += text[at] == c;
  return total;
}

/// Packed bytes break off.
class Truncated : public OptimError {
 public:
  using OptimError::OptimError;
};

/// Bytes in order. Errors are OptimErrors that name the source.
class RawBytes {
 public:
  virtual ~RawBytes() = default;
  /// Waits until there is at least one byte; 0 at the end, or when `stop` was set while waiting.
  virtual std::size_t read(std::span<char> out) = 0;
  /// Whether read would not wait.
  virtual bool ready() = 0;
};
/// Plain or gzip, recognised by content.
std::unique_ptr<RawBytes> open_file_bytes(const std::string& path, std::uint64_t offset = 0);
std::unique_ptr<RawBytes> open_input_bytes(const std::atomic<bool>& stop);
/// Its group of processes ends with the source; an exit status other than 0 is an error at the end.
std::unique_ptr<RawBytes> open_command_bytes(const std::string& command, const std::string& name,
                                             const std::atomic<bool>& stop);

/// Whether a text's first bytes are enough to tell how its lines are to be read. Empty: they always are.
using CanStart = std::function<bool(std::string_view)>;

/// Cuts one source into pieces.
class LineCutter {
 public:
  /// The source's bytes begin at this place of the text; at its very beginning `can_start` is asked. settled:
  /// no more has come for so long that it need not be waited for.
  LineCutter(std::unique_ptr<RawBytes> source, std::string name, CanStart can_start,
             std::uint64_t position = 0, std::uint64_t first_line = 1, bool starts_text = true,
             bool settled = false);
  /// Whole lines of about `size` bytes, fewer where the source has no more for now; false at the end. Bytes
  /// after the last line break are a line at the end, unless `whole_lines`: then they are left out, and so is
  /// all of a text that cannot start yet. Throws OptimError for a line of more than `size` bytes.
  bool next(std::size_t size, bool whole_lines, TextPiece& piece);
  std::uint64_t position() const { return position_; }  ///< after the last piece
  std::uint64_t line() const { return line_; }          ///< number of the line that begins there

 private:
  bool more_comes();
  bool read_head();
  std::size_t read(std::span<char> out);
  bool ready() { return ahead_ < head_.size() || source_->ready(); }

  std::unique_ptr<RawBytes> source_;
  std::string name_, rest_;
  CanStart can_start_;
  std::string head_;       ///< the text's first bytes
  std::size_t ahead_ = 0;  ///< of these, where those begin that are in no piece yet
  std::uint64_t position_, line_;
  bool starts_, settled_, head_ended_ = false, ended_ = false;
};

/// All texts of a specification, one after the other. One thread at a time, but any.
class TextSource {
 public:
  virtual ~TextSource() = default;
  enum class Found { piece, nothing_yet, end };
  virtual Found next(std::size_t size, TextPiece& piece) = 0;
};
/// Once `stop` is set, waiting ends. Throws OptimError for what cannot be opened.
std::unique_ptr<TextSource> open_text(const SampleStreamSpec& spec, const std::atomic<bool>& stop,
                                      CanStart can_start = {});

}  // namespace gossamer::optim
