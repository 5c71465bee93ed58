#pragma once
// Lines "label index:1 index:1 …", of which click logs mostly consist, many at a time: bits say which
// characters stand where in 64 bytes of text, so that no index and no line waits for the one before it.
#include <cstddef>
#include <cstdint>

#include "parse_lines.h"

namespace gossamer::optim {

/// What the CPU's vectors do of it; null where they are short.
struct OneValueKernels {
  /// Bytes that may be read from any character of the text on, and before a line's first colon.
  static constexpr std::size_t kAhead = 64, kBehind = 8;
  /// A line ends before `end`, and with it so many entries of all lines up to it.
  struct Line {
    const char* end;
    std::size_t entries;
  };
  static constexpr std::size_t kMostLines = 128;
  struct Found {
    std::size_t lines;
    /// Where the next line is written in another way: behind its last word that is not, or before the line.
    /// Null where none was found.
    const char* other;
    std::size_t entries;  ///< up to there
  };
  /// The lines at p, each with its line break, up to `last`, or to one that is written in another way: with
  /// another value, more than 8 digits, a tab, a comment. Their labels are only known to be short, if there
  /// are any. digits[i] become the 8 bytes before the colon of entry i.
  Found (*find)(const char* p, const char* last, std::uint64_t* digits, Line* lines) = nullptr;
  /// Of each 8 bytes the number at their end, and as many ones. Better not at once: what has just been
  /// written a word at a time can be read in vectors only once it is in the cache.
  void (*read)(std::uint64_t* digits, float* values, std::size_t count) = nullptr;
};
OneValueKernels one_value_kernels();

/// Reads such lines of one piece of text; finish() when all else of it is read.
class OneValues {
 public:
  OneValues(const OneValueKernels& kernels, LineReading& lines) : kernels_(kernels), lines_(lines) {}
  /// All of them from p on, as this peer's; returns what follows: another line, or the piece's end. With all
  /// that it calls in its loop, and not in that of parse.
  [[gnu::noinline, gnu::flatten]] const char* read_lines(const char* p) {
    finish();
    while (can_read(p)) {
      const SampleBlock::Writer first(lines_.out);
      OneValueKernels::Line found[OneValueKernels::kMostLines];
      const auto [count, other, all_entries] = kernels_.find(p, lines_.end(), first.key(), found);
      std::size_t i = 0, entries = 0;
      for (; i < count; ++i) {
        SampleBlock::Writer writer(lines_.out);
        writer.skip(found[i].entries - entries);
        if (p != found[i].end) {
          float label = 0;
          const char* const after = scan_digit_label(p, label);
          if (!after || static_cast<unsigned char>(*after) > ' ') break;  // no blank
          lines_.add(p, found[i].end, writer, label);
        }
        entries = found[i].entries;
        p = found[i].end + 1;
      }
      lines_.pass(i);
      if (i == count && other > p) {
        begun_ = {p, other, all_entries - entries};
        entries = all_entries;
      }
      kernels_.read(first.key(), first.value(), entries);
      if (other || count == 0 || i < count) break;
    }
    return p;
  }
  /// The first entries of the line [p, end), whose label is known; returns what follows them, p where there
  /// are none.
  const char* read_line(const char* p, const char* end, SampleBlock::Writer& out) {
    if (p == begun_.line) {
      out.skip(begun_.entries);
      return begun_.after;
    }
    if (!can_read(p)) return p;
    if (out.key() != end_ || end_ - begin_ >= kAtOnce) {
      finish();
      begin_ = end_ = out.key();
      values_ = out.value();
    }
    OneValueKernels::Line found[OneValueKernels::kMostLines];
    const auto [count, other, entries] = kernels_.find(p, end + 1, end_, found);
    if (count == 0 && !(other > p)) return p;
    end_ = out.skip(count > 0 ? found[0].entries : entries);
    return count > 0 ? end : other;
  }
  void finish() {
    if (begin_ != end_) kernels_.read(begin_, values_, static_cast<std::size_t>(end_ - begin_));
    begin_ = end_ = nullptr;
  }

 private:
  bool can_read(const char* p) const {
    return kernels_.find && p < lines_.end() &&
           p - lines_.begin() >= static_cast<std::ptrdiff_t>(OneValueKernels::kBehind);
  }
  static constexpr std::ptrdiff_t kAtOnce = 256;
  const OneValueKernels kernels_;
  LineReading& lines_;
  struct {
    const char *line, *after;
    std::size_t entries;
  } begun_{};                                        ///< the line that read_lines found to be another
  std::uint64_t *begin_ = nullptr, *end_ = nullptr;  ///< keys that are digits yet
  float* values_ = nullptr;                          ///< theirs
};

}  // namespace gossamer::optim
