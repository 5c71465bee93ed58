#pragma once
// Entries "index:1", of which click logs mostly consist, many at a time: bits say which characters stand
// where in 64 bytes of text, so that no index waits for the one before it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sample_block.h"

namespace gossamer::optim {

/// What the CPU's vectors do of it; null where they are short.
struct OneValueKernels {
  /// Bytes that may be read from where an entry begins on, and before its colon.
  static constexpr std::size_t kAhead = 64, kBehind = 8;
  struct Found {
    const char* after;  ///< what follows the entries
    std::size_t entries;
  };
  /// The entries at p, each with the blank or line break behind it, up to the line's end or one that is
  /// written in another way: with another value, more than 8 digits, a tab. digits[i] become the 8 bytes
  /// before the colon of entry i.
  Found (*find)(const char* p, std::uint64_t* digits) = nullptr;
  /// Of each 8 bytes the number at their end. Better not at once: what has just been written a word at a time
  /// can be read in vectors only once it is in the cache.
  void (*read)(std::uint64_t* digits, std::size_t count) = nullptr;
};
OneValueKernels one_value_kernels();

/// Reads such entries of one piece of text; finish() when all else of it is read.
class OneValues {
 public:
  OneValues(const OneValueKernels& kernels, const char* text) : kernels_(kernels), text_(text) {}
  bool can_read_at(const char* p) const {
    return kernels_.find && p - text_ >= static_cast<std::ptrdiff_t>(OneValueKernels::kBehind);
  }
  /// What follows the entries at p, at most one byte past the line's end.
  const char* read(const char* p, SampleBlock::Writer& out) {
    if (out.key() != end_ || end_ - begin_ >= kAtOnce) {
      finish();
      begin_ = out.key();
      values_ = out.value();
    }
    const auto [after, entries] = kernels_.find(p, out.key());
    end_ = out.skip(entries);
    return after;
  }
  void finish() {
    const auto count = static_cast<std::size_t>(end_ - begin_);
    if (count > 0) kernels_.read(begin_, count);
    values_ = std::fill_n(values_, count, 1.0f);
    begin_ = end_;
  }

 private:
  static constexpr std::ptrdiff_t kAtOnce = 256;
  const OneValueKernels kernels_;
  const char* const text_;
  std::uint64_t *begin_ = nullptr, *end_ = nullptr;  ///< keys that are digits yet
  float* values_ = nullptr;                          ///< theirs
};

}  // namespace gossamer::optim
