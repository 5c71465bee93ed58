// Compiled once for each instruction set; which one is used is chosen when the program runs.
#include "one_values.h"

#include <algorithm>
#include <bit>
#include <cstring>

// Without vectors of no fixed size, which cannot stand in arrays, and SSSE3, which SSE4 replaced long ago.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "one_values.cpp"
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
using Words = hn::CappedTag<std::uint64_t, 8>;
using WordVector = hn::Vec<Words>;

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
  static constexpr std::size_t kWidth = hn::MaxLanes(Chars()), kVectors = 64 / kWidth;
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

/// What blocks that follow each other consist of.
class Lines {
 public:
  /// A line begins.
  HWY_INLINE Lines() { breaks_.now = blanks_.now = Bits{1} << 63; }
  HWY_INLINE void Next(const Block& block) {
    digits_.Next(block.Digits());
    colons_.Next(block.Equal(':'));
    breaks_.Next(block.Equal('\n'));
    blanks_.Next(block.Equal(' ') | breaks_.now);
    Bits others = ~(digits_.now | colons_.now | blanks_.now) & ~breaks_.Later(1);
    if (HWY_UNLIKELY((others | returns_.now) != 0)) {
      returns_.Next(block.Equal('\r'));
      blanks_.now |= returns_.now;
      others = (others & ~returns_.now) | (returns_.Later(1) & ~breaks_.now);
    } else {
      returns_.before = 0;
    }
    const Bits ends = blanks_.now & ~blanks_.Later(1);        // of words
    const Bits labels = breaks_.Later(2) | breaks_.Later(3);  // their ends: of one character or two
    other_ = others | (colons_.now & ~digits_.Later(1)) | (colons_.Later(1) & ~block.Equal('1')) |
             ((ends ^ colons_.Later(2)) & ~labels);
    twos_.Next(digits_.now & digits_.Later(1));
    fours_.Next(twos_.now & twos_.Later(2));
    if (fours_.now != 0) {
      eights_.Next(fours_.now & fours_.Later(4));
      other_ |= eights_.Later(1) & digits_.now;
    } else {
      eights_ = {};
    }
  }
  /// Characters of lines that are written in another way, up to them; of labels only that they are short.
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

 private:
  Run digits_, colons_, breaks_, blanks_, returns_, twos_, fours_, eights_;
  Bits other_ = 0;
};

OneValueKernels::Found Find(const char* p, const char* last, std::uint64_t* digits,
                            OneValueKernels::Line* lines) {
  constexpr std::size_t kAtOnce = 8, kMostInBlock = 64;
  static_assert(kAtOnce <= SampleBlock::kSpareEntries);
  std::uint64_t* to = digits;
  OneValueKernels::Line* line = lines;
  const OneValueKernels::Line* const enough = lines + OneValueKernels::kMostLines - kMostInBlock;
  Lines text;
  for (; p < last && line < enough; p += kMostInBlock) {
    text.Next(Block(p));
    const Bits known = BelowLowest(text.other());
    const Bits colons = text.colons() & known;
    const auto entries = static_cast<std::size_t>(to - digits);
    for (Bits breaks = text.breaks() & known; breaks != 0; breaks &= breaks - 1)
      *line++ = {p + std::countr_zero(breaks), entries + Count(colons & BelowLowest(breaks))};
    const char* const behind = p - OneValueKernels::kBehind;
    std::uint64_t* const end = to + Count(colons);
    for (Bits left = colons; left != 0; to += kAtOnce)
      for (std::size_t k = 0; k < kAtOnce; ++k, left &= left - 1)  // of none is left, the first is the 64th
        std::memcpy(to + k, behind + std::countr_zero(left), sizeof *to);
    to = end;
    if (text.other()) {
      const auto [behind_last, since] = text.LastWord(known);
      return {static_cast<std::size_t>(line - lines), p + behind_last,
              static_cast<std::size_t>(to - digits) - since};
    }
  }
  return {static_cast<std::size_t>(line - lines), nullptr, 0};
}

/// Of at most 8 digits after a blank. The last digit first, the lower one of two neighbours counts once, the
/// higher one ten times; then a hundred and ten thousand times.
HWY_INLINE WordVector Numbers(WordVector text) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  const hn::Repartition<std::uint16_t, Words> halves;
  const hn::Repartition<std::uint32_t, Words> ints;
  alignas(16) static constexpr std::uint8_t kBackwards[16] = {7,  6,  5,  4,  3,  2,  1, 0,
                                                              15, 14, 13, 12, 11, 10, 9, 8};
  const auto last_first =
      hn::BitCast(Words(), hn::TableLookupBytes(hn::BitCast(bytes, text), hn::LoadDup128(bytes, kBackwards)));
  // Digits have this bit, the blank before them has not: what is one less has all bits up to there.
  const auto no_digits = hn::AndNot(last_first, hn::BitCast(Words(), hn::Set(bytes, 0x10)));
  const auto index = hn::And(last_first, hn::Sub(no_digits, hn::Set(Words(), 1)));
  const auto ones = hn::BitCast(halves, hn::And(index, hn::BitCast(Words(), hn::Set(bytes, 0x0F))));
  const auto twos = hn::ShiftRight<8>(hn::Mul(ones, hn::Set(halves, (1 << 8) + 10)));
  const auto fours = hn::ShiftRight<16>(hn::Mul(hn::BitCast(ints, twos), hn::Set(ints, (1 << 16) + 100)));
  const auto high = hn::ShiftRight<32>(hn::BitCast(Words(), fours));
  const auto low = hn::And(hn::BitCast(Words(), fours), hn::Set(Words(), 0xFFFFFFFF));
  return hn::Add(hn::MulEven(hn::BitCast(ints, high), hn::Set(ints, 10000)), low);
}

void Read(std::uint64_t* digits, float* values, std::size_t count) {
  constexpr std::size_t kStep = hn::MaxLanes(Words());
  const hn::Rebind<float, Words> floats;
  const auto one = hn::Set(floats, 1.0f);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    hn::StoreU(Numbers(hn::LoadU(Words(), digits + i)), Words(), digits + i);
    hn::StoreU(one, floats, values + i);
  }
  std::uint64_t last[kStep] = {};
  std::memcpy(last, digits + i, (count - i) * sizeof *digits);
  hn::StoreU(Numbers(hn::LoadU(Words(), last)), Words(), last);
  std::memcpy(digits + i, last, (count - i) * sizeof *digits);
  std::fill_n(values + i, count - i, 1.0f);
}

}  // namespace

OneValueKernels Kernels() { return {&Find, &Read}; }

#else

OneValueKernels Kernels() { return {}; }

#endif
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::optim {

HWY_EXPORT(Kernels);
OneValueKernels one_value_kernels() { return HWY_DYNAMIC_DISPATCH(Kernels)(); }

}  // namespace gossamer::optim
#endif
