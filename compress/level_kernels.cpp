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
void MeasureAny(Measure what, const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  *measured = plain::measure(what, x, e, v, n);
}
void DrawPhilox(const EntryBits& random, std::size_t group, Draws* draws) {
  random.words(group, draws->words);
}
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
using DoubleTag = hn::Repartition<double, Tag>;
using LongTag = hn::Repartition<std::uint64_t, Tag>;
using Vector = hn::Vec<Tag>;
using Words = hn::Vec<WordTag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kBytes = 4 * kWidth;
constexpr std::size_t kAhead = 2048;  ///< floats to prefetch in front of a stream

/// Where entry i + kAhead will be; past the end of the array it is only a hint.
HWY_INLINE void PrefetchAhead(const float* x, std::size_t i) {
  hwy::Prefetch(reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(x + i) + 4 * kAhead));
}

HWY_INLINE hn::Vec<IntTag> Magnitude(Vector v) {
  return hn::And(hn::BitCast(IntTag(), v), hn::Set(IntTag(), 0x7fffffff));
}

/// Sums of squares in double, 32 lanes.
class Squares {
 public:
  HWY_INLINE Squares() {
    for (auto& lane : lane_) lane = hn::Zero(DoubleTag());
  }
  /// Entries k·kWidth … of a row of 32.
  HWY_INLINE void Add(std::size_t k, Vector v) {
    const hn::Half<Tag> half;
    AddTo(lane_[2 * k], hn::PromoteTo(DoubleTag(), hn::LowerHalf(half, v)));
    AddTo(lane_[2 * k + 1], hn::PromoteTo(DoubleTag(), hn::UpperHalf(half, v)));
  }
  HWY_INLINE double Total() {
    for (std::size_t width = kVectors / 2; width > 0; width /= 2) {
      for (std::size_t k = 0; k < width; ++k) lane_[k] = hn::Add(lane_[k], lane_[k + width]);
    }
    std::array<double, kLanes> rest;
    hn::StoreU(lane_[0], DoubleTag(), rest.data());
    return plain::combine_lanes(rest);
  }

 private:
  static HWY_INLINE void AddTo(hn::Vec<DoubleTag>& lane, hn::Vec<DoubleTag> v) {
    lane = hn::Add(lane, hn::Mul(v, v));
  }
  static constexpr std::size_t kLanes = hn::MaxLanes(DoubleTag());
  static constexpr std::size_t kVectors = plain::kSumLanes / kLanes;
  hn::Vec<DoubleTag> lane_[kVectors];
};

/// What is measured of whole rows of 32 entries, in two chains.
template <Measure kWhat>
struct Measuring {
  explicit HWY_INLINE Measuring(float first) {
    largest[0] = largest[1] = hn::Zero(IntTag());
    low[0] = low[1] = high[0] = high[1] = hn::Set(Tag(), first);
  }
  HWY_INLINE void Add(std::size_t k, Vector v) {
    largest[k % 2] = hn::Max(largest[k % 2], Magnitude(v));
    if constexpr (kWhat == Measure::range) {
      low[k % 2] = hn::Min(low[k % 2], v);
      high[k % 2] = hn::Max(high[k % 2], v);
    }
    if constexpr (kWhat == Measure::squares) squares.Add(k, v);
  }
  hn::Vec<IntTag> largest[2];
  Vector low[2], high[2];
  Squares squares;
};

template <Measure kWhat, bool kAdd>
void MeasureAs(const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  const Tag tag;
  constexpr std::size_t kRow = plain::kSumLanes;
  Measuring<kWhat> measuring(measured->low);
  std::size_t i = 0;
  for (; i + kRow <= n; i += kRow) {
    PrefetchAhead(x, i);
    PrefetchAhead(x, i + 16);
    if constexpr (kAdd) {
      PrefetchAhead(e, i);
      PrefetchAhead(e, i + 16);
    }
    for (std::size_t k = 0; k < kRow / kWidth; ++k) {
      Vector entries = hn::LoadU(tag, x + i + k * kWidth);
      if constexpr (kAdd) {
        entries = hn::Add(entries, hn::LoadU(tag, e + i + k * kWidth));
        hn::StoreU(entries, tag, v + i + k * kWidth);
      }
      measuring.Add(k, entries);
    }
  }
  measured->largest = std::bit_cast<float>(
      hn::GetLane(hn::MaxOfLanes(IntTag(), hn::Max(measuring.largest[0], measuring.largest[1]))));
  if constexpr (kWhat == Measure::range) {
    measured->low = hn::GetLane(hn::MinOfLanes(tag, hn::Min(measuring.low[0], measuring.low[1])));
    measured->high = hn::GetLane(hn::MaxOfLanes(tag, hn::Max(measuring.high[0], measuring.high[1])));
  }
  if (i < n) {
    float row[kRow] = {};
    for (std::size_t j = 0; i + j < n; ++j) row[j] = kAdd ? (v[i + j] = x[i + j] + e[i + j]) : x[i + j];
    plain::measure_entries(row, n - i, *measured);
    if constexpr (kWhat == Measure::squares) {
      for (std::size_t k = 0; k < kRow / kWidth; ++k)
        measuring.squares.Add(k, hn::LoadU(tag, row + k * kWidth));
    }
  }
  if constexpr (kWhat == Measure::squares) measured->squares = measuring.squares.Total();
}

template <bool kAdd>
void MeasureWhat(Measure what, const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  if (what == Measure::largest) return MeasureAs<Measure::largest, kAdd>(x, e, v, n, measured);
  if (what == Measure::range) return MeasureAs<Measure::range, kAdd>(x, e, v, n, measured);
  return MeasureAs<Measure::squares, kAdd>(x, e, v, n, measured);
}

void MeasureAny(Measure what, const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  if (e != nullptr) return MeasureWhat<true>(what, x, e, v, n, measured);
  return MeasureWhat<false>(what, x, nullptr, nullptr, n, measured);
}

/// Philox on counters in 64-bit lanes: a product's low half is the next counter word as it stands, and what
/// is in the high halves of counter words is never looked at. Even and odd blocks apart, so that their words
/// then interleave.
void DrawPhilox(const EntryBits& random, std::size_t group, Draws* draws) {
  const LongTag tag;
  const WordTag word_tag;
  using Long = hn::Vec<LongTag>;
  constexpr std::size_t kSets = kWidth == 16 ? 4 : 2, kLanes = kWidth / 2;
  const Long multiplier0 = hn::Set(tag, EntryBits::kMultiplier0);
  const Long multiplier1 = hn::Set(tag, EntryBits::kMultiplier1);
  const auto product = [&](Long a, Long b) {
    return hn::MulEven(hn::BitCast(word_tag, a), hn::BitCast(word_tag, b));
  };
  const Long twice = hn::Iota(tag, 0);
  for (std::size_t b = 0; b < EntryBits::kBlocks; b += kSets * kLanes) {
    Long c0[kSets], c1[kSets], c2[kSets], c3[kSets];
    for (std::size_t s = 0; s < kSets; ++s) {
      const std::size_t first = group * EntryBits::kBlocks + b + s / 2 * kWidth + s % 2;
      c0[s] = hn::Add(hn::Set(tag, first), hn::Add(twice, twice));
      c1[s] = hn::Set(tag, random.counter()[0]);
      c2[s] = hn::Set(tag, random.counter()[1]);
      c3[s] = hn::Set(tag, random.counter()[2]);
    }
    std::uint32_t k0 = random.key()[0], k1 = random.key()[1];
    for (int round = 0; round < EntryBits::kRounds; ++round) {
      const Long key0 = hn::Set(tag, k0), key1 = hn::Set(tag, k1);
      for (std::size_t s = 0; s < kSets; ++s) {
        const Long p0 = product(multiplier0, c0[s]), p1 = product(multiplier1, c2[s]);
        c0[s] = hn::Xor3(hn::ShiftRight<32>(p1), c1[s], key0);
        c2[s] = hn::Xor3(hn::ShiftRight<32>(p0), c3[s], key1);
        c1[s] = p1;
        c3[s] = p0;
      }
      k0 += EntryBits::kWeyl0;
      k1 += EntryBits::kWeyl1;
    }
    const auto store = [&](Long even, Long odd, std::uint32_t* to) {
      hn::StoreU(hn::OddEven(hn::BitCast(word_tag, hn::ShiftLeft<32>(odd)), hn::BitCast(word_tag, even)),
                 word_tag, to);
    };
    for (std::size_t s = 0; s < kSets; s += 2) {
      std::uint32_t* const to = draws->words + b + s / 2 * kWidth;
      store(c0[s], c0[s + 1], to);
      store(c1[s], c1[s + 1], to + Draws::kRow);
      store(c2[s], c2[s + 1], to + 2 * Draws::kRow);
      store(c3[s], c3[s + 1], to + 3 * Draws::kRow);
    }
  }
}

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

/// What turns entries to fields, in registers.
template <bool kRange>
struct Rounding {
  explicit HWY_INLINE Rounding(const Levels& levels)
      : shift(hn::Set(Tag(), levels.shift)),
        origin(hn::Set(Tag(), levels.origin)),
        inverse(hn::Set(Tag(), levels.inverse)),
        least(hn::Set(Tag(), levels.least)),
        most(hn::Set(Tag(), levels.most)),
        mask(hn::Set(WordTag(), levels.draw_mask)),
        start(hn::Set(WordTag(), levels.start)),
        values(levels) {}
  Vector shift, origin, inverse, least, most;
  Words mask, start;
  LevelVectors<kRange> values;
};

/// Fields of a register of entries whose draws are the low (kHigh: high) halves of the words.
template <unsigned kBits, bool kHigh, bool kRange>
HWY_INLINE Words Round(const Rounding<kRange>& rounding, Vector entries, Words word) {
  constexpr int kShift = plain::draw_shift(kBits);
  Vector p = hn::Mul(hn::Sub(hn::Mul(entries, rounding.shift), rounding.origin), rounding.inverse);
  p = hn::Min(hn::Max(p, rounding.least), rounding.most);
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
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange>
HWY_INLINE Words QuantisePart(const Rounding<kRange>& rounding, const float* v, const std::uint32_t* words,
                              float* residual, std::size_t i) {
  const Tag tag;
  const Vector entries = hn::LoadU(tag, v + i);
  const Words field = Round<kBits, kHigh>(rounding, entries, hn::LoadU(WordTag(), words + i));
  if constexpr (kFeedback) {
    const Vector level = rounding.values.Value(hn::ConvertTo(tag, hn::BitCast(IntTag(), field)));
    hn::StoreU(hn::Sub(entries, level), tag, residual + i);
  }
  return field;
}

/// One block of kBytes entries.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange>
HWY_INLINE void QuantiseBlock(const Rounding<kRange>& rounding, const float* v, const std::uint32_t* words,
                              std::uint8_t* fields, float* residual) {
  constexpr auto kPart = QuantisePart<kBits, kHigh, kFeedback, kRange>;
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
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange>
HWY_INLINE void QuantiseRun(const Rounding<kRange>& rounding, const float* v, std::size_t n,
                            const std::uint32_t* words, std::uint8_t* fields, float* residual) {
  std::size_t i = 0;
  for (; i + kBytes <= n; i += kBytes)
    QuantiseBlock<kBits, kHigh, kFeedback, kRange>(rounding, v + i, words + i, fields + i,
                                                   kFeedback ? residual + i : nullptr);
  if (i == n) return;
  float entries[kBytes] = {}, kept[kBytes];
  std::uint8_t padded[kBytes];
  std::copy(v + i, v + n, entries);
  QuantiseBlock<kBits, kHigh, kFeedback, kRange>(rounding, entries, words + i, padded, kept);
  std::copy(padded, padded + (n - i), fields + i);
  if constexpr (kFeedback) std::copy(kept, kept + (n - i), residual + i);
}

template <unsigned kBits, bool kFeedback, bool kRange>
void QuantiseAs(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                std::uint8_t* fields, float* residual) {
  const Rounding<kRange> rounding(levels);
  for (std::size_t i = 0; i < n;) {
    const std::size_t j = first + i, row = j / Draws::kRow, column = j % Draws::kRow;
    const std::size_t count = std::min(n - i, Draws::kRow - column);
    const std::uint32_t* const words = draws.words + row / 2 * Draws::kRow + column;
    float* const kept = kFeedback ? residual + i : nullptr;
    if (row % 2 == 0) {
      QuantiseRun<kBits, false, kFeedback, kRange>(rounding, v + i, count, words, fields + i, kept);
    } else {
      QuantiseRun<kBits, true, kFeedback, kRange>(rounding, v + i, count, words, fields + i, kept);
    }
    i += count;
  }
}

template <unsigned kBits>
void QuantiseBits(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                  std::uint8_t* fields, float* residual) {
  if (residual == nullptr)
    return QuantiseAs<kBits, false, false>(levels, v, n, draws, first, fields, nullptr);
  if (levels.range) return QuantiseAs<kBits, true, true>(levels, v, n, draws, first, fields, residual);
  return QuantiseAs<kBits, true, false>(levels, v, n, draws, first, fields, residual);
}

void QuantiseAny(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                 std::uint8_t* fields, float* residual) {
  if (levels.bits == 2) return QuantiseBits<2>(levels, v, n, draws, first, fields, residual);
  if (levels.bits == 4) return QuantiseBits<4>(levels, v, n, draws, first, fields, residual);
  return QuantiseBits<8>(levels, v, n, draws, first, fields, residual);
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
      PrefetchAhead(acc, i);
      const auto field = hn::PromoteTo(int_tag, hn::LoadU(byte_tag, fields + i));
      const Vector step = hn::TableLookupLanes(table, hn::IndicesFromVec(tag, field));
      hn::StoreU(hn::Add(hn::LoadU(tag, acc + i), step), tag, acc + i);
    }
  } else {
    for (; i + kWidth <= n; i += kWidth) {
      PrefetchAhead(acc, i);
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

HWY_EXPORT(MeasureAny);
HWY_EXPORT(DrawPhilox);
HWY_EXPORT(QuantiseAny);
HWY_EXPORT(AddLevels);
HWY_EXPORT(PackPairs);
HWY_EXPORT(UnpackPairs);
HWY_EXPORT(AllWithin);

}  // namespace

Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  Measured measured;
  if (n > 0) measured.low = measured.high = e == nullptr ? x[0] : x[0] + e[0];
  HWY_DYNAMIC_DISPATCH(MeasureAny)(what, x, e, v, n, &measured);
  measured.low += 0.0f;
  measured.high += 0.0f;
  return measured;
}

void draw(const EntryBits& random, std::size_t group, Draws& draws) {
  HWY_DYNAMIC_DISPATCH(DrawPhilox)(random, group, &draws);
}

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
