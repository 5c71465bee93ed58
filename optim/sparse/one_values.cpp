// Compiled once for each instruction set; which one is used is chosen when the program runs.
#include "one_values.h"

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
using Chars = hn::CappedTag<std::uint8_t, 64>;
using CharVector = hn::Vec<Chars>;
using Words = hn::CappedTag<std::uint64_t, 8>;
using WordVector = hn::Vec<Words>;

/// 64 characters.
class Block {
 public:
  HWY_INLINE explicit Block(const char* at) {
    for (std::size_t k = 0; k < kVectors; ++k)
      vectors_[k] = hn::LoadU(Chars(), reinterpret_cast<const std::uint8_t*>(at) + k * kWidth);
  }
  /// A bit for each that is c.
  HWY_INLINE Bits Equal(char c) const {
    const CharVector wanted = hn::Set(Chars(), static_cast<std::uint8_t>(c));
    return Where([&](CharVector v) HWY_ATTR { return hn::Eq(v, wanted); });
  }
  HWY_INLINE Bits Digits() const {
    const CharVector zero = hn::Set(Chars(), '0'), ten = hn::Set(Chars(), 10);
    return Where([&](CharVector v) HWY_ATTR { return hn::Lt(hn::Sub(v, zero), ten); });
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

/// The colons of the entries with which a block begins.
HWY_INLINE Bits Colons(const Block& block) {
  const Bits digits = block.Digits(), colons = block.Equal(':'), breaks = block.Equal('\n');
  const Bits blanks = block.Equal(' ') | breaks;
  const Bits twos = digits & digits << 1, fours = twos & twos << 2, eights = fours & fours << 4;
  const Bits no_ones = colons & ~(block.Equal('1') >> 1 & blanks >> 2);
  const Bits no_index = colons & (colons << 3 | 1), long_index = eights & digits << 8;
  const Bits others = ~(digits | colons | colons << 2);
  const Bits ends = no_ones | no_index | long_index | others | breaks;
  return colons & ~ends & (ends - 1);
}

OneValueKernels::Found Find(const char* p, std::uint64_t* digits) {
  constexpr std::size_t kAtOnce = 4;
  static_assert(kAtOnce <= SampleBlock::kSpareEntries);
  std::uint64_t* to = digits;
  while (Bits left = Colons(Block(p))) {
    const char* const behind = p - OneValueKernels::kBehind;
    p += std::bit_width(left) + 2;
    std::uint64_t* const end = to + std::popcount(left);
    for (; left != 0; to += kAtOnce)
      for (std::size_t k = 0; k < kAtOnce; ++k, left &= left - 1)  // of none is left, the first is the 64th
        std::memcpy(to + k, behind + std::countr_zero(left), sizeof *to);
    to = end;
    if (p[-1] == '\n' || *p == '\n') break;
  }
  return {p, static_cast<std::size_t>(to - digits)};
}

HWY_INLINE WordVector Numbers(WordVector text) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  const hn::Repartition<std::uint16_t, Words> halves;
  const hn::Repartition<std::uint32_t, Words> ints;
  const auto digits = hn::Sub(hn::BitCast(bytes, text), hn::Set(bytes, '0'));
  auto none = hn::BitCast(Words(), hn::VecFromMask(bytes, hn::Gt(digits, hn::Set(bytes, 9))));
  none = hn::Or(none, hn::ShiftRight<8>(none));  // what stands before it is none either
  none = hn::Or(none, hn::ShiftRight<16>(none));
  none = hn::Or(none, hn::ShiftRight<32>(none));
  // of two neighbours the lower one counts ten, then a hundred, then ten thousand times
  const auto ones = hn::BitCast(halves, hn::AndNot(none, hn::BitCast(Words(), digits)));
  const auto ten_ones = hn::Mul(hn::And(ones, hn::Set(halves, 0xFF)), hn::Set(halves, 10));
  const auto twos = hn::BitCast(ints, hn::Add(ten_ones, hn::ShiftRight<8>(ones)));
  const auto hundred_twos = hn::Mul(hn::And(twos, hn::Set(ints, 0xFFFF)), hn::Set(ints, 100));
  const auto fours = hn::Add(hundred_twos, hn::ShiftRight<16>(twos));
  return hn::Add(hn::MulEven(fours, hn::Set(ints, 10000)), hn::ShiftRight<32>(hn::BitCast(Words(), fours)));
}

void Read(std::uint64_t* digits, std::size_t count) {
  constexpr std::size_t kStep = hn::MaxLanes(Words());
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(Numbers(hn::LoadU(Words(), digits + i)), Words(), digits + i);
  std::uint64_t last[kStep] = {};
  std::memcpy(last, digits + i, (count - i) * sizeof *digits);
  hn::StoreU(Numbers(hn::LoadU(Words(), last)), Words(), last);
  std::memcpy(digits + i, last, (count - i) * sizeof *digits);
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
