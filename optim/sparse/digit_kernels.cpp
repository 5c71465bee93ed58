// Compiled once for each instruction set; which one is used is chosen when the program runs.
#include "digit_kernels.h"

#include <bit>
#include <cstring>

#include "sample_block.h"

// Vectors of no fixed size could not stand beside those of LineKernels; SSE4 replaced SSSE3 long ago.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "digit_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::optim {
namespace HWY_NAMESPACE {
#if HWY_CAP_GE256
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::CappedTag<std::uint64_t, 8>;
using WordVector = hn::Vec<Words>;

/// Of at most 8 digits after a blank. The last digit first, the lower one of two neighbours counts once, the
/// higher one ten times; then a hundred and ten thousand times.
HWY_INLINE WordVector LastLowest(WordVector text) {
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

/// Of 8 bytes of digits' values the number, the first one the highest.
HWY_INLINE WordVector FirstHighest(WordVector digits) {
  const hn::Repartition<std::uint16_t, Words> halves;
  const hn::Repartition<std::uint32_t, Words> ints;
  const auto twos = hn::ShiftRight<8>(hn::Mul(hn::BitCast(halves, digits), hn::Set(halves, (10 << 8) + 1)));
  const auto fours = hn::ShiftRight<16>(hn::Mul(hn::BitCast(ints, twos), hn::Set(ints, (100 << 16) + 1)));
  const auto high = hn::MulEven(fours, hn::Set(ints, 10000));
  return hn::Add(high, hn::ShiftRight<32>(hn::BitCast(Words(), fours)));
}

using Floats = hn::Rebind<float, Words>;
using Doubles = hn::Rebind<double, Words>;

/// Of numbers below 2^52.
HWY_INLINE hn::Vec<Doubles> ToDoubles(WordVector numbers) {
  const auto two52 = hn::Set(Words(), 0x4330000000000000);
  return hn::Sub(hn::BitCast(Doubles(), hn::Or(numbers, two52)), hn::BitCast(Doubles(), two52));
}

HWY_INLINE WordVector Lowest(WordVector bits) { return hn::And(bits, hn::Sub(hn::Zero(Words()), bits)); }
HWY_INLINE WordVector Below(WordVector bit) { return hn::Sub(bit, hn::Set(Words(), 1)); }  // of none, all

constexpr std::size_t kStep = hn::MaxLanes(Words());
static_assert(kStep <= SampleBlock::kSpareEntries);

void Indices(std::uint64_t* digits, std::size_t count) {
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(LastLowest(hn::LoadU(Words(), digits + i)), Words(), digits + i);
  std::uint64_t last[kStep] = {};
  std::memcpy(last, digits + i, (count - i) * sizeof *digits);
  hn::StoreU(LastLowest(hn::LoadU(Words(), last)), Words(), last);
  std::memcpy(digits + i, last, (count - i) * sizeof *digits);
}

/// Of text in which a blank or a point ends numbers, the lowest bit of each byte that is no digit.
HWY_INLINE WordVector NoDigits(WordVector text) {
  return hn::ShiftRight<4>(hn::AndNot(text, hn::Set(Words(), 0x1010101010101010)));
}
HWY_INLINE WordVector DigitValues(WordVector text) {
  return hn::And(text, hn::Set(Words(), 0x0F0F0F0F0F0F0F0F));
}

HWY_INLINE WordVector Points(WordVector text) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  return hn::BitCast(Words(), hn::VecFromMask(bytes, hn::Eq(hn::BitCast(bytes, text), hn::Set(bytes, '.'))));
}

/// A bit for each that is not known.
HWY_INLINE unsigned StoreValues(WordVector first, WordVector second, float* values) {
  const auto none = hn::Zero(Words()), first_byte = hn::Set(Words(), 1);
  const auto negative = hn::Eq(hn::And(first, hn::Set(Words(), 0xFF)), hn::Set(Words(), '-'));
  first = hn::IfThenElse(negative, hn::Or(hn::ShiftRight<8>(first), hn::ShiftLeft<56>(second)), first);
  const auto points = Points(first);
  const auto no_digits = NoDigits(first);
  const auto whole_end = Lowest(no_digits);  // the byte behind
  const auto end = Lowest(hn::AndNot(hn::And(whole_end, points), no_digits));
  const auto digits = hn::And(DigitValues(first), Below(end));
  // Those of the whole part one byte on, to where the point was: 7 in all.
  const auto whole = hn::ShiftLeft<8>(hn::And(digits, Below(whole_end)));
  const auto fraction = hn::And(digits, hn::Sub(none, hn::ShiftLeft<8>(whole_end)));
  auto number = ToDoubles(FirstHighest(hn::Or(whole, fraction)));
  auto one = ToDoubles(FirstHighest(whole_end));  // a 1 in the place of the whole part's last digit
  const auto sign =
      hn::BitCast(Doubles(), hn::IfThenElseZero(negative, hn::Set(Words(), std::uint64_t{1} << 63)));
  const auto nearest = [&](hn::Vec<Doubles> n)
                           HWY_ATTR { return hn::DemoteTo(Floats(), hn::Or(hn::Div(n, one), sign)); };
  // It ends within these 8 bytes, behind a digit.
  const auto good_end = hn::AndNot(hn::Or(hn::ShiftLeft<8>(no_digits), first_byte), end);
  if (hn::AllFalse(Words(), hn::Eq(good_end, none))) {
    hn::StoreU(nearest(number), Floats(), values);
    return 0;
  }
  const auto goes_on = hn::Eq(end, none);
  second = hn::IfThenElse(negative, hn::ShiftRight<8>(second), second);
  const auto last_end = Lowest(NoDigits(second));
  const auto more = hn::IfThenElseZero(goes_on, hn::And(DigitValues(second), Below(last_end)));
  const auto hundred_millions = hn::Set(Doubles(), 1e8);
  number = hn::MulAdd(number, hundred_millions, ToDoubles(FirstHighest(more)));
  one = hn::Mul(one, hundred_millions);
  const auto rounded = nearest(number);
  hn::StoreU(rounded, Floats(), values);
  // Digits that follow the 16 bytes, of which a minus has taken one, add less than this.
  const auto last_byte = hn::Set(Words(), std::uint64_t{1} << 56);
  const auto open =
      hn::And(goes_on, hn::Or(hn::Eq(last_end, none), hn::And(negative, hn::Eq(last_end, last_byte))));
  const auto highest =
      hn::Add(number, hn::IfThenElseZero(hn::RebindMask(Doubles(), open), hn::Set(Doubles(), 10.0)));
  const auto good = hn::IfThenElse(goes_on, whole_end, good_end);
  std::uint8_t sure = 0, known = 0;
  hn::StoreMaskBits(Floats(), hn::Eq(rounded, nearest(highest)), &sure);
  hn::StoreMaskBits(Words(), hn::Ne(good, none), &known);
  return ~(unsigned{sure} & known) & ((1U << kStep) - 1);
}

std::size_t Values(const DigitKernels::Decimal* decimals, float* values, std::size_t count,
                   std::size_t* unknown) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kStep) {
    WordVector first, second;
    hn::LoadInterleaved2(Words(), &decimals[i].first, first, second);
    for (unsigned lanes = StoreValues(first, second, values + i); lanes != 0; lanes &= lanes - 1)
      if (const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(lanes)); at < count)
        unknown[found++] = at;
  }
  return found;
}

}  // namespace

DigitKernels MakeDigitKernels() { return {&Indices, &Values}; }

#else

DigitKernels MakeDigitKernels() { return {}; }

#endif
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::optim {

HWY_EXPORT(MakeDigitKernels);
DigitKernels digit_kernels() { return HWY_DYNAMIC_DISPATCH(MakeDigitKernels)(); }

}  // namespace gossamer::optim
#endif
