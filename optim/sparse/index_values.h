#pragma once
// Lines "label index:value index:value …" many at a time.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "line_kernels.h"
#include "parse_lines.h"

namespace gossamer::optim {

/// Reads such lines of one piece of text; finish() when all else of it is read.
class IndexValues {
 public:
  explicit IndexValues(LineReading& lines) : lines_(lines) {}
  /// All of them from p on, as this peer's; returns what follows: another line, or the piece's end. With all
  /// that it calls in its loop, and not in that of parse.
  [[gnu::noinline, gnu::flatten]] const char* read_lines(const char* p) {
    finish();
    while (can_read(p) && (read_lines_of_ones(p) || read_lines_of_numbers(p))) {
    }
    return p;
  }
  /// The first entries of the line [p, end), whose label is known, and that a blank or the end follows it;
  /// returns what follows them, p where there are none.
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
    Lines lines;
    OneEntries ones(end_);
    if (kernels_.find_ones(p, end + 1, ones, lines).lines > 0) {
      end_ = out.skip(lines[0].entries);
      return end;
    }
    finish();
    NumberEntries numbers(digits_, p, end, out.key(), out.value());
    const Found found = read_numbers(p, end + 1, numbers, lines);
    out.skip(found.lines > 0 ? lines[0].entries : found.entries);
    return found.lines > 0 ? end : std::max(p, found.other);
  }
  void finish() {
    if (begin_ != end_) read_ones(begin_, values_, static_cast<std::size_t>(end_ - begin_));
    begin_ = end_ = nullptr;
  }

 private:
  using Found = LineKernels::Found;
  using Lines = LineKernels::Line[LineKernels::kMostLines];

  bool can_read(const char* p) const {
    return kernels_.find_ones && p < lines_.end() &&
           p - lines_.begin() >= static_cast<std::ptrdiff_t>(LineKernels::kBehind);
  }
  /// Moves p behind the lines at p that are such; whether what follows may be one too.
  bool read_lines_of_ones(const char*& p) {
    const SampleBlock::Writer out(lines_.out);
    Lines lines;
    OneEntries ones(out.key());
    const bool all = take(kernels_.find_ones(p, lines_.end(), ones, lines), lines, p);
    read_ones(out.key(), out.value(), ones.count());
    return all;
  }
  bool read_lines_of_numbers(const char*& p) {
    const SampleBlock::Writer out(lines_.out);
    Lines lines;
    NumberEntries numbers(digits_, p, lines_.end(), out.key(), out.value());
    return take(read_numbers(p, lines_.end(), numbers, lines), lines, p);
  }
  /// Up to a line with a value that is none.
  Found read_numbers(const char* p, const char* last, NumberEntries& numbers, Lines& lines) const {
    Found found = kernels_.find_numbers(p, last, numbers, lines);
    numbers.read();
    if (numbers.first_bad() >= numbers.count()) return found;
    std::size_t good = 0;
    while (good < found.lines && lines[good].entries <= numbers.first_bad()) ++good;
    return {good, p, 0};
  }
  void read_ones(std::uint64_t* keys, float* values, std::size_t count) const {
    digits_.indices(keys, count);
    std::fill_n(values, count, 1.0f);
  }
  /// Takes the lines at p that were found up to the first without a label.
  bool take(const Found& found, const Lines& lines, const char*& p) {
    begun_ = {};
    std::size_t i = 0, entries = 0;
    for (; i < found.lines; ++i) {
      SampleBlock::Writer writer(lines_.out);
      writer.skip(lines[i].entries - entries);
      if (p != lines[i].end) {
        float label = 0;
        const char* const after = scan_digit_label(p, label);
        if (!after || !(*after == ' ' || LineReading::trimmed(after, lines[i].end) == after)) break;
        lines_.add(p, lines[i].end, writer, label);
      }
      entries = lines[i].entries;
      p = lines[i].end + 1;
    }
    lines_.pass(i);
    if (i == found.lines && found.other > p) begun_ = {p, found.other, found.entries - entries};
    return !found.other && found.lines > 0 && i == found.lines;
  }
  static constexpr std::ptrdiff_t kAtOnce = 256;
  const LineKernels kernels_ = line_kernels();
  const DigitKernels digits_ = digit_kernels();
  LineReading& lines_;
  struct {
    const char *line, *after;
    std::size_t entries;
  } begun_{};                                        ///< the line that read_lines found to be another
  std::uint64_t *begin_ = nullptr, *end_ = nullptr;  ///< keys that are digits yet
  float* values_ = nullptr;                          ///< theirs
};

}  // namespace gossamer::optim
