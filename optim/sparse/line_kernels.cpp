// Compiled once for each instruction set; which one is used is chosen when the program runs.
#include "line_kernels.h"

#include <bit>

// Without vectors of no fixed size, which cannot stand in arrays, and SSSE3, which SSE4 replaced long ago.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "line_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::optim {
namespace HWY_NAMESPACE {
#if HWY_CAP_GE256
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bits = std::uint64_t;
using Chars = hn::CappedTag<std::int8_t, 64>;
using CharVector = hn::Vec<Chars>;

/// 64 characters.
class Block {
 public:
  HWY_INLINE explicit Block(const char* at) {
    for (std::size_t k = 0; k < kVectors; ++k)
      vectors_[k] = hn::LoadU(Chars(), reinterpret_cast<const std::int8_t*>(at) + k * kWidth);
  }
  /// A bit for each that is c.
  HWY_INLINE Bits Equal(char c) const {
    const CharVector wanted = hn::Set(Chars(), static_cast<std::int8_t>(c));
    return Where([&](CharVector v) HWY_ATTR { return hn::Eq(v, wanted); });
  }
  HWY_INLINE Bits Digits() const {  // so many higher, they are the highest that there are
    const CharVector higher = hn::Set(Chars(), 127 - '9'), below = hn::Set(Chars(), 127 - 10);
    return Where([&](CharVector v) HWY_ATTR { return hn::Gt(hn::Add(v, higher), below); });
  }

 private:
  static constexpr std::size_t kWidth = hn::MaxLanes(Chars()), kVectors = kTextBlock / kWidth;
  template <class Is>
  HWY_INLINE Bits Where(const Is& is) const {
    Bits bits = 0;
    for (std::size_t k = 0; k < kVectors; ++k) {
      Bits some = 0;
      hn::StoreMaskBits(Chars(), is(vectors_[k]), reinterpret_cast<std::uint8_t*>(&some));
      bits |= some << k * kWidth;
    }
    return bits;
  }
  CharVector vectors_[kVectors];
};

HWY_INLINE std::size_t Count(Bits bits) { return static_cast<std::size_t>(std::popcount(bits)); }
HWY_INLINE Bits BelowLowest(Bits bits) { return (bits & -bits) - 1; }  // of none, all
HWY_INLINE Bits BelowHighest(Bits bits) { return std::bit_floor(bits) - 1; }

/// Bits of this block and of the one before it.
struct Run {
  Bits now = 0, before = 0;
  HWY_INLINE void Next(Bits bits) {
    before = now;
    now = bits;
  }
  /// Of what stands n characters later.
  HWY_INLINE Bits Later(int n) const { return now << n | before >> (64 - n); }
};

/// Runs of some characters.
class Runs {
 public:
  HWY_INLINE void Next(Bits characters, Bits begins) {
    const Bits sum = characters + begins, all = sum + carry_;
    carry_ = (sum < characters) | (all < sum);
    ends_ = all & ~characters;
    in_them_ = characters & ~all;
  }
  /// What stands behind those that begin at these, which is where a sum's carries come to lie. Of none, where
  /// it would have begun.
  Bits ends() const { return ends_; }
  Bits characters() const { return in_them_; }

 private:
  Bits carry_ = 0, ends_ = 0, in_them_ = 0;
};

/// More digits of one number than 8.
class TooManyDigits {
 public:
  HWY_INLINE Bits Next(Bits digits) {
    digits_.Next(digits);
    twos_.Next(digits & digits_.Later(1));
    fours_.Next(twos_.now & twos_.Later(2));
    if (fours_.now == 0) {
      eights_ = {};
      return 0;
    }
    eights_.Next(fours_.now & fours_.Later(4));
    return eights_.Later(1) & digits;
  }

 private:
  Run digits_, twos_, fours_, eights_;
};

/// What blocks that follow each other consist of.
class Lines {
 public:
  /// Characters of lines that are written in another way, up to them. Of a line's first word only that there
  /// is no colon in it.
  Bits other() const { return other_; }
  Bits colons() const { return colons_.now; }
  Bits breaks() const { return breaks_.now; }
  struct Word {
    int end;            ///< from the block's beginning on
    std::size_t since;  ///< colons after it
  };
  /// The last one that ends among what is known of the block, or in the one before.
  Word LastWord(Bits known) const {
    const Bits blanks = blanks_.now & ~returns_.now & known, before = blanks_.before & ~returns_.before;
    const Bits colons = colons_.now & known;
    if (blanks != 0) return {std::bit_width(blanks) - 1, Count(colons & ~BelowHighest(blanks))};
    return {std::bit_width(before) - 65, Count(colons) + Count(colons_.before & ~BelowHighest(before))};
  }

 protected:
  /// Where others than digits, colons and blanks stand; a line's first one may be any.
  HWY_INLINE Bits NextCharacters(const Block& block) {
    digits_.Next(block.Digits());
    colons_.Next(block.Equal(':'));
    breaks_.Next(block.Equal('\n'));
    blanks_.Next(block.Equal(' ') | breaks_.now);
    return ~(digits_.now | colons_.now | blanks_.now) & ~breaks_.Later(1);
  }
  /// Takes returns as blanks, if there may be any.
  HWY_INLINE bool TakeReturns(const Block& block, Bits others) {
    if (HWY_LIKELY((others | returns_.now) == 0)) {
      returns_.before = 0;
      return false;
    }
    returns_.Next(block.Equal('\r'));
    blanks_.now |= returns_.now;
    return true;
  }
  /// What follows returns that do not end a line.
  HWY_INLINE Bits LoneReturns() const { return returns_.Later(1) & ~breaks_.now; }

  static constexpr Bits kLineBegins = Bits{1} << 63;
  Run digits_, colons_, breaks_{kLineBegins, 0}, blanks_{kLineBegins, 0};
  Bits other_ = 0;

 private:
  Run returns_;
};

class LinesOfOnes : public Lines {
 public:
  static Bits hard() { return 0; }
  HWY_INLINE void Next(const Block& block) {
    Bits others = NextCharacters(block);
    if (TakeReturns(block, others)) others = (others & ~blanks_.now) | LoneReturns();
    const Bits ends = blanks_.now & ~blanks_.Later(1);        // of words
    const Bits labels = breaks_.Later(2) | breaks_.Later(3);  // their ends: of one character or two
    other_ = others | (colons_.now & ~digits_.Later(1)) | (colons_.Later(1) & ~block.Equal('1')) |
             ((ends ^ colons_.Later(2)) & ~labels);
    other_ |= too_many_digits_.Next(digits_.now);
  }

 private:
  TooManyDigits too_many_digits_;
};

class LinesOfNumbers : public Lines {
 public:
  HWY_INLINE void Next(const Block& block) {
    const Bits points = block.Equal('.'), others = NextCharacters(block) & ~points;
    const bool returns = TakeReturns(block, others);
    indices_.Next(digits_.now, blanks_.Later(1) & ~(blanks_.now | breaks_.Later(1)));
    other_ = (indices_.ends() ^ colons_.now) | (colons_.now & ~digits_.Later(1)) |
             too_many_digits_.Next(indices_.characters());
    if (returns) other_ |= LoneReturns();
    wholes_.Next(digits_.now, colons_.Later(2));
    points_.Next(wholes_.ends() & points);
    fractions_.Next(digits_.now, points_.Later(1));
    const Bits begins = colons_.Later(1);
    hard_ = (((wholes_.ends() & ~points) | fractions_.ends()) & ~blanks_.now) | (begins & points);
    if (const Bits signs = begins & others; signs != 0) hard_ |= signs & ~block.Equal('-');
  }
  /// What stands in values and is not a minus, digits and a point with digits, or a point where a digit or a
  /// minus should be first; at most twice in one.
  Bits hard() const { return hard_; }

 private:
  Run points_;
  Runs indices_, wholes_, fractions_;
  TooManyDigits too_many_digits_;
  Bits hard_ = 0;
};

/// Finds the lines at p; `entries` takes where the colons stand.
template <class LinesOf, class Entries>
HWY_INLINE LineKernels::Found Find(const char* p, const char* last, Entries& entries,
                                   LineKernels::Line* lines) {
  LineKernels::Line* line = lines;
  const LineKernels::Line* const enough = lines + LineKernels::kMostLines - kTextBlock;
  LinesOf text;
  for (; p < last && line < enough; p += kTextBlock) {
    text.Next(Block(p));
    const Bits known = BelowLowest(text.other());
    const Bits colons = text.colons() & known;
    for (Bits breaks = text.breaks() & known; breaks != 0; breaks &= breaks - 1)
      *line++ = {p + std::countr_zero(breaks), entries.count() + Count(colons & BelowLowest(breaks))};
    entries.add(p, colons, Count(colons), text.hard() & known);
    if (text.other()) {
      const auto [behind_last, since] = text.LastWord(known);
      return {static_cast<std::size_t>(line - lines), p + behind_last, entries.count() - since};
    }
  }
  return {static_cast<std::size_t>(line - lines), nullptr, 0};
}

LineKernels::Found FindOnes(const char* p, const char* last, OneEntries& entries, LineKernels::Line* lines) {
  return Find<LinesOfOnes>(p, last, entries, lines);
}

LineKernels::Found FindNumbers(const char* p, const char* last, NumberEntries& entries,
                               LineKernels::Line* lines) {
  return Find<LinesOfNumbers>(p, last, entries, lines);
}

}  // namespace

LineKernels MakeLineKernels() { return {&FindOnes, &FindNumbers}; }

#else

LineKernels MakeLineKernels() { return {}; }

#endif
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::optim {

HWY_EXPORT(MakeLineKernels);
LineKernels line_kernels() { return HWY_DYNAMIC_DISPATCH(MakeLineKernels)(); }

}  // namespace gossamer::optim
#endif
