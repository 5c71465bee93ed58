#pragma once
// Entries "index:value" whose colons have been found in a text, on their way to keys and values.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "digit_kernels.h"
#include "sample_block.h"
#include "scan.h"

namespace gossamer::optim {

/// Characters of a block.
inline constexpr std::size_t kTextBlock = 64;

/// At each colon of a block, many at once: of none is left, the first is the 64th.
template <class Keep>
[[gnu::always_inline]] inline void at_colons(std::uint64_t colons, const Keep& keep) {
  constexpr std::size_t kAtOnce = 8;
  static_assert(kAtOnce <= SampleBlock::kSpareEntries);
  for (std::size_t i = 0; colons != 0; i += kAtOnce)
    for (std::size_t k = 0; k < kAtOnce; ++k, colons &= colons - 1) keep(i + k, std::countr_zero(colons));
}

/// Entries of value 1: in the keys' places the 8 bytes before their colons. Better read later: what has just
/// been written a word at a time can be read in vectors only once it is in the cache.
class OneEntries {
 public:
  explicit OneEntries(std::uint64_t* keys) : begin_(keys), end_(keys) {}
  std::size_t count() const { return static_cast<std::size_t>(end_ - begin_); }
  [[gnu::always_inline]] void add(const char* block, std::uint64_t colons, std::size_t count, std::uint64_t) {
    std::uint64_t* const to = end_;  // for all that the compiler knows, what is written there might be end_
    at_colons(colons,
              [=](std::size_t i, int at) { std::memcpy(to + i, block + at - sizeof *to, sizeof *to); });
    end_ = to + count;
  }

 private:
  std::uint64_t *begin_, *end_;
};

/// Entries of any values: the 16 bytes behind their colons too, until they are many enough to be read.
class NumberEntries {
 public:
  /// Of the text from p on; it ends at `last`, or its lines do.
  NumberEntries(const DigitKernels& kernels, const char* p, const char* last, std::uint64_t* keys,
                float* values)
      : kernels_(kernels), text_(p), last_(last), begin_(keys), end_(keys), unread_(keys), values_(values) {}
  std::size_t count() const { return static_cast<std::size_t>(end_ - begin_); }
  /// `hard` are characters of values, each behind its colon, that the kernels cannot read.
  [[gnu::always_inline]] void add(const char* block, std::uint64_t colons, std::size_t count,
                                  std::uint64_t hard) {
    if (unread() > kUnread - kTextBlock) read();
    std::uint64_t* const to = end_;
    DigitKernels::Decimal* const decimals = decimals_ + unread();
    at_colons(colons, [=](std::size_t i, int at) {
      std::memcpy(to + i, block + at - sizeof *to, sizeof *to);
      std::memcpy(decimals + i, block + at + 1, sizeof *decimals);
    });
    end_ = to + count;
    if (hard != 0) mark_hard(block, static_cast<std::size_t>(to - begin_), colons, hard);
  }
  void read() {
    std::size_t unknown[kUnread];
    kernels_.indices(unread_, unread());
    const std::size_t count = kernels_.values(decimals_, values_, unread(), unknown);
    const std::size_t before = read_before();
    for (std::size_t i = 0, h = 0; i < count; ++i) {
      const std::size_t entry = before + unknown[i];
      read_value(entry, h < hard_count_ && hard_[h].entry == entry ? hard_[h++].text : find_value(entry),
                 values_[unknown[i]]);
    }
    hard_count_ = 0;
    values_ += unread();
    unread_ = end_;
  }
  /// The first entry whose value is none, of those read; as many as there can be where all are.
  std::size_t first_bad() const { return first_bad_; }

 private:
  static constexpr std::size_t kUnread = 512;
  std::size_t unread() const { return static_cast<std::size_t>(end_ - unread_); }
  std::size_t read_before() const { return static_cast<std::size_t>(unread_ - begin_); }
  /// So that the kernels do not know their values; that of the last block's last one may have been read.
  void mark_hard(const char* block, std::size_t before, std::uint64_t colons, std::uint64_t hard) {
    for (; hard != 0; hard &= hard - 1) {
      const std::uint64_t below = (hard & -hard) - 1;
      const std::size_t entry = before + static_cast<std::size_t>(std::popcount(colons & below)) - 1;
      const char* text = block + std::countr_zero(hard);
      while (text[-1] != ':') --text;
      if (entry < read_before()) {
        read_value(entry, text, values_[-1]);
      } else if (hard_count_ == 0 || hard_[hard_count_ - 1].entry != entry) {
        decimals_[entry - read_before()].first = 0;
        hard_[hard_count_++] = {entry, text};
      }
    }
  }
  /// Null for what is behind the text's end.
  const char* find_value(std::size_t entry) {
    for (; passed_ <= entry && text_; ++passed_) {
      const void* const colon = std::memchr(text_, ':', static_cast<std::size_t>(last_ - text_));
      text_ = colon ? static_cast<const char*>(colon) + 1 : nullptr;
    }
    return text_;
  }
  void read_value(std::size_t entry, const char* text, float& value) {
    const char* const after = text ? scan_decimal(text, last_, value) : nullptr;
    if (!after || !(*after == ' ' || *after == '\n' || (*after == '\r' && after[1] == '\n')))
      first_bad_ = std::min(first_bad_, entry);
  }

  struct Hard {
    std::size_t entry;
    const char* text;
  };
  const DigitKernels& kernels_;
  const char *text_, *const last_;  ///< what stands behind the colons passed, null behind all; the end
  std::size_t passed_ = 0, first_bad_ = std::numeric_limits<std::size_t>::max(), hard_count_ = 0;
  std::uint64_t *begin_, *end_, *unread_;
  float* values_;
  DigitKernels::Decimal decimals_[kUnread + SampleBlock::kSpareEntries];
  Hard hard_[kUnread];
};

}  // namespace gossamer::optim
