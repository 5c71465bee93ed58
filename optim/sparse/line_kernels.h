#pragma once
// Lines "label index:value index:value …" in blocks of text: bits say which characters stand where, so that
// no line waits for the one before it.
#include <cstddef>
#include <cstdint>

#include "index_entries.h"

namespace gossamer::optim {

/// What the CPU's vectors do of it; null where they are short.
struct LineKernels {
  /// Bytes that may be read from any character of the text on, and before a line's first colon.
  static constexpr std::size_t kAhead = 96, kBehind = 8;
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
  /// The lines at p, each with its line break, up to `last`, or to one that is written in another way: with a
  /// value that is not "1", an index of more than 8 digits, a tab, a comment. Their labels are only known to
  /// be short, if there are any. Click logs mostly consist of such lines.
  Found (*find_ones)(const char* p, const char* last, OneEntries& entries, Line* lines) = nullptr;
  /// The same for values of any form; the entries are told which of their characters are not a minus, digits
  /// and a point with digits.
  Found (*find_numbers)(const char* p, const char* last, NumberEntries& entries, Line* lines) = nullptr;
};
LineKernels line_kernels();

}  // namespace gossamer::optim
