// Compiled once for each instruction set that Highway knows, and chosen when first called.
#include "level_kernels.h"

#include <algorithm>

#include "level_kernels_inline.h"

// Vectors of unknown size cannot be kept in arrays; those machines use their fixed-size sets.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "level_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::compress {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
void QuantiseAny(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                 std::uint8_t* fields, float* residual) {
  plain::quantise(levels, v, n, draws, first, fields, residual);
}
void AddLevels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  plain::add_levels(levels, fields, weight, acc, n);
}
void PackPairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  plain::pack_pairs(bits, fields, n, out);
}
void UnpackPairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  plain::unpack_pairs(bits, in, n, fields);
}
bool AllWithin(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return plain::all_within(fields, n, top);
}
#else

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<Tag>;
using WordTag = hn::RebindToUnsigned<Tag>;
using ByteTag = hn::Rebind<std::uint8_t, Tag>;           // as many bytes as Tag has floats
using AllBytesTag = hn::Repartition<std::uint8_t, Tag>;  // as many bytes as a register has
using Vector = hn::Vec<Tag>;
using Words = hn::Vec<WordTag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kBytes = 4 * kWidth;

/// The constants of Levels in registers.
template <bool kRange>
class LevelVectors {
 public:
  HWY_INLINE explicit LevelVectors(const Levels& levels)
      : zero_(Of(levels.zero)),
        step_(Of(levels.step)),
        unit_(Of(levels.unit)),
        low_(Of(levels.low)),
        high_(Of(levels.high)),
        top_(Of(static_cast<float>(levels.top))),
        middle_(Of(static_cast<float>(levels.top) * 0.5f)) {}
  /// plain::value of fields that stand as floats.
  HWY_INLINE Vector Value(Vector field) const {
    if constexpr (!kRange) return hn::Mul(hn::Mul(hn::Sub(field, zero_), step_), unit_);
    const auto upper = hn::Gt(field, middle_);
    const Vector steps = hn::Sub(field, hn::IfThenElseZero(upper, top_));
    return hn::Add(hn::IfThenElse(upper, high_, low_), hn::Mul(hn::Mul(steps, step_), unit_));
  }

 private:
  static HWY_INLINE Vector Of(float x) { return hn::Set(Tag(), x); }
  Vector zero_, step_, unit_, low_, high_, top_, middle_;
};

/// Bytes k of four registers' words, which lie in byte k of `mixed`, in the order of the entries.
HWY_INLINE hn::Vec<AllBytesTag> InOrder(Words mixed) {
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                           2, 6, 10, 14, 3, 7, 11, 15};
  const AllBytesTag byte_tag;
  const auto gathered = hn::TableLookupBytes(hn::BitCast(byte_tag, mixed), hn::LoadDup128(byte_tag, kGather));
  if constexpr (kWidth == 4) return gathered;
  // Word k of block b goes to b among those of byte k.
  alignas(64) static constexpr auto kOrder = [] {
    std::array<std::int32_t, kWidth> order{};
    constexpr std::size_t kParts = kWidth / 4;
    for (std::size_t i = 0; i < kWidth; ++i)
      order[i] = static_cast<std::int32_t>(i % kParts * 4 + i / kParts);
    return order;
  }();
  return hn::BitCast(byte_tag, hn::TableLookupLanes(hn::BitCast(WordTag(), gathered),
                                                    hn::SetTableIndices(WordTag(), kOrder.data())));
}

/// How much of plain::field_of is needed: all; or p = v·inverse alone, the same fields where nothing is
/// shifted and the rounding of p cannot reach the next field.
enum class Position { all, product };

/// What turns entries to fields, in registers.
template <bool kRange, Position kPosition>
struct Rounding {
  explicit HWY_INLINE Rounding(const Levels& levels)
      : shift(hn::Set(Tag(), levels.shift)),
        origin(hn::Set(Tag(), levels.origin)),
        inverse(hn::Set(Tag(), levels.inverse)),
        least(hn::Set(Tag(), levels.least)),
        most(hn::Set(Tag(), levels.most)),
        mask(hn::Set(WordTag(), levels.draw_mask)),
        start(hn::Set(WordTag(), levels.start)),
        values(levels),
        table(values.Value(hn::Iota(Tag(), 0))) {}
  Vector shift, origin, inverse, least, most;
  Words mask, start;
  LevelVectors<kRange> values;
  Vector table;  ///< of the lowest fields
};

/// Fields of a register of entries whose draws are the low (kHigh: high) halves of the words.
template <unsigned kBits, bool kHigh, bool kRange, Position kPosition>
HWY_INLINE Words Round(const Rounding<kRange, kPosition>& rounding, Vector entries, Words word) {
  constexpr int kShift = plain::draw_shift(kBits);
  Vector p = entries;
  if constexpr (kPosition == Position::all) p = hn::Sub(hn::Mul(p, rounding.shift), rounding.origin);
  p = hn::Mul(p, rounding.inverse);
  if constexpr (kPosition == Position::all) p = hn::Min(hn::Max(p, rounding.least), rounding.most);
  Words placed;
  if constexpr (kHigh) {
    placed = hn::ShiftRight<16 - kShift>(word);
  } else if constexpr (kShift < 0) {
    placed = hn::ShiftRight<1>(word);
  } else {
    placed = hn::ShiftLeft<(kShift < 0 ? 0 : kShift)>(word);
  }
  const Vector drawn = hn::BitCast(Tag(), hn::OrAnd(rounding.start, placed, rounding.mask));
  return hn::And(hn::ShiftRight<23 - static_cast<int>(kBits)>(hn::BitCast(WordTag(), hn::Add(p, drawn))),
                 hn::Set(WordTag(), (1u << kBits) - 1));
}

/// Fields of one register of entries, and its residual.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE Words QuantisePart(const Rounding<kRange, kPosition>& rounding, const float* v,
                              const std::uint32_t* words, float* residual, std::size_t i) {
  const Tag tag;
  const Vector entries = hn::LoadU(tag, v + i);
  const Words field = Round<kBits, kHigh>(rounding, entries, hn::LoadU(WordTag(), words + i));
  if constexpr (kFeedback) {
    const auto index = hn::BitCast(IntTag(), field);
    Vector level;
    if constexpr (kWidth == 16 && kBits <= 4) {
      level = hn::TableLookupLanes(rounding.table, hn::IndicesFromVec(tag, index));
    } else {
      level = rounding.values.Value(hn::ConvertTo(tag, index));
    }
    hn::StoreU(hn::Sub(entries, level), tag, residual + i);
  }
  return field;
}

/// One block of kBytes entries.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE void QuantiseBlock(const Rounding<kRange, kPosition>& rounding, const float* v,
                              const std::uint32_t* words, std::uint8_t* fields, float* residual) {
  constexpr auto kPart = QuantisePart<kBits, kHigh, kFeedback, kRange, kPosition>;
  const Words field0 = kPart(rounding, v, words, residual, 0);
  const Words field1 = kPart(rounding, v, words, residual, kWidth);
  const Words field2 = kPart(rounding, v, words, residual, 2 * kWidth);
  const Words field3 = kPart(rounding, v, words, residual, 3 * kWidth);
  const Words packed = hn::Or(hn::Or(field0, hn::ShiftLeft<8>(field1)),
                              hn::Or(hn::ShiftLeft<16>(field2), hn::ShiftLeft<24>(field3)));
  hn::StoreU(InOrder(packed), AllBytesTag(), fields);
}

/// Entries whose draws are one row's halves. What is left of a block is padded: words may be read past the
/// row.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE void QuantiseRun(const Rounding<kRange, kPosition>& rounding, const float* v, std::size_t n,
                            const std::uint32_t* words, std::uint8_t* fields, float* residual) {
  std::size_t i = 0;
  for (; i + kBytes <= n; i += kBytes)
    QuantiseBlock<kBits, kHigh, kFeedback, kRange, kPosition>(rounding, v + i, words + i, fields + i,
                                                              kFeedback ? residual + i : nullptr);
  if (i == n) return;
  float entries[kBytes] = {}, kept[kBytes];
  std::uint8_t padded[kBytes];
  std::copy(v + i, v + n, entries);
  QuantiseBlock<kBits, kHigh, kFeedback, kRange, kPosition>(rounding, entries, words + i, padded, kept);
  std::copy(padded, padded + (n - i), fields + i);
  if constexpr (kFeedback) std::copy(kept, kept + (n - i), residual + i);
}

template <unsigned kBits, bool kFeedback, bool kRange, Position kPosition>
void QuantiseAs(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                std::uint8_t* fields, float* residual) {
  const Rounding<kRange, kPosition> rounding(levels);
  for (std::size_t i = 0; i < n;) {
    const std::size_t j = first + i, row = j / Draws::kRow, column = j % Draws::kRow;
    const std::size_t count = std::min(n - i, Draws::kRow - column);
    const std::uint32_t* const words = draws.words + row / 2 * Draws::kRow + column;
    float* const kept = kFeedback ? residual + i : nullptr;
    if (row % 2 == 0) {
      QuantiseRun<kBits, false, kFeedback, kRange, kPosition>(rounding, v + i, count, words, fields + i,
                                                              kept);
    } else {
      QuantiseRun<kBits, true, kFeedback, kRange, kPosition>(rounding, v + i, count, words, fields + i, kept);
    }
    i += count;
  }
}

template <unsigned kBits, bool kFeedback>
void QuantiseBits(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                  std::uint8_t* fields, float* residual) {
  if (levels.range)
    return QuantiseAs<kBits, kFeedback, true, Position::all>(levels, v, n, draws, first, fields, residual);
  if (kBits <= 4 && levels.shift == 1 && !levels.clips) {
    return QuantiseAs<kBits, kFeedback, false, Position::product>(levels, v, n, draws, first, fields,
                                                                  residual);
  }
  return QuantiseAs<kBits, kFeedback, false, Position::all>(levels, v, n, draws, first, fields, residual);
}

template <unsigned kBits>
void QuantiseFor(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                 std::uint8_t* fields, float* residual) {
  if (residual != nullptr) return QuantiseBits<kBits, true>(levels, v, n, draws, first, fields, residual);
  return QuantiseBits<kBits, false>(levels, v, n, draws, first, fields, nullptr);
}

void QuantiseAny(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                 std::uint8_t* fields, float* residual) {
  if (levels.bits == 2) return QuantiseFor<2>(levels, v, n, draws, first, fields, residual);
  if (levels.bits == 4) return QuantiseFor<4>(levels, v, n, draws, first, fields, residual);
  return QuantiseFor<8>(levels, v, n, draws, first, fields, residual);
}

template <bool kRange>
void AddLevelsAs(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  const Tag tag;
  const IntTag int_tag;
  const ByteTag byte_tag;
  const LevelVectors<kRange> values(levels);
  const Vector weights = hn::Set(tag, weight);
  std::size_t i = 0;
  if (kWidth == 16 && levels.top < 16) {
    // One register holds what every field adds.
    const Vector table = hn::Mul(weights, values.Value(hn::Iota(tag, 0)));
    for (; i + kWidth <= n; i += kWidth) {
      hwy::Prefetch(plain::ahead(acc, i));
      const auto field = hn::PromoteTo(int_tag, hn::LoadU(byte_tag, fields + i));
      const Vector step = hn::TableLookupLanes(table, hn::IndicesFromVec(tag, field));
      hn::StoreU(hn::Add(hn::LoadU(tag, acc + i), step), tag, acc + i);
    }
  } else {
    for (; i + kWidth <= n; i += kWidth) {
      hwy::Prefetch(plain::ahead(acc, i));
      const auto field = hn::PromoteTo(int_tag, hn::LoadU(byte_tag, fields + i));
      const Vector step = hn::Mul(weights, values.Value(hn::ConvertTo(tag, field)));
      hn::StoreU(hn::Add(hn::LoadU(tag, acc + i), step), tag, acc + i);
    }
  }
  plain::add_levels(levels, fields + i, weight, acc + i, n - i);
}

void AddLevels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  if (levels.range) return AddLevelsAs<true>(levels, fields, weight, acc, n);
  return AddLevelsAs<false>(levels, fields, weight, acc, n);
}

using PairTag = hn::Repartition<std::uint16_t, Tag>;
using HalfBytesTag = hn::Half<AllBytesTag>;

void PackPairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  const PairTag tag;
  const int shift = static_cast<int>(8 - bits);
  for (std::size_t i = 0; i < n; i += kBytes) {
    const auto pairs = hn::BitCast(tag, hn::LoadU(AllBytesTag(), fields + i));
    const auto joined = hn::And(hn::Or(pairs, hn::ShiftRightSame(pairs, shift)), hn::Set(tag, 0xff));
    hn::StoreU(hn::DemoteTo(HalfBytesTag(), hn::BitCast(hn::RebindToSigned<PairTag>(), joined)),
               HalfBytesTag(), out + i / 2);
  }
}

void UnpackPairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  const PairTag tag;
  const int shift = static_cast<int>(8 - bits);
  const auto mask = hn::Set(tag, static_cast<std::uint16_t>(((1u << bits) - 1) * 0x0101u));
  for (std::size_t i = 0; i < n; i += kBytes) {
    const auto joined = hn::PromoteTo(tag, hn::LoadU(HalfBytesTag(), in + i / 2));
    const auto pairs = hn::And(hn::Or(joined, hn::ShiftLeftSame(joined, shift)), mask);
    hn::StoreU(hn::BitCast(AllBytesTag(), pairs), AllBytesTag(), fields + i);
  }
}

bool AllWithin(const std::uint8_t* fields, std::size_t n, unsigned top) {
  const AllBytesTag tag;
  auto highest = hn::Zero(tag);
  for (std::size_t i = 0; i < n; i += kBytes) highest = hn::Max(highest, hn::LoadU(tag, fields + i));
  const auto limit = hn::Set(tag, static_cast<std::uint8_t>(top));
  return hn::AllTrue(tag, hn::Eq(hn::Max(highest, limit), limit));
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::compress {
namespace {

HWY_EXPORT(QuantiseAny);
HWY_EXPORT(AddLevels);
HWY_EXPORT(PackPairs);
HWY_EXPORT(UnpackPairs);
HWY_EXPORT(AllWithin);

}  // namespace

void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
              std::uint8_t* fields, float* residual) {
  HWY_DYNAMIC_DISPATCH(QuantiseAny)(levels, v, n, draws, first, fields, residual);
}

void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(AddLevels)(levels, fields, weight, acc, n);
}

void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PackPairs)(bits, fields, n, out);
}

void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  HWY_DYNAMIC_DISPATCH(UnpackPairs)(bits, in, n, fields);
}

bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return HWY_DYNAMIC_DISPATCH(AllWithin)(fields, n, top);
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
