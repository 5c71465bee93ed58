// Compiled once for each instruction set that Highway knows, and chosen when first called.
#include "level_kernels.h"

#include <algorithm>

#include "fields.h"
#include "level_kernels_inline.h"
#include "targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "level_encode_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::compress {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
Measured MeasureAny(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  return plain::measure(what, x, e, v, n);
}
void Draw(const EntryBits& random, std::size_t group, Draws* draws) { random.words(group, draws->words); }
void QuantiseAny(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
                 std::uint8_t* fields, float* residual) {
  plain::quantise(levels, v, n, draws, first, fields, residual);
}
void PackPairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  plain::pack_pairs(bits, fields, n, out);
}
void PackTrits(const std::uint8_t* digits, std::size_t row, std::uint8_t* out) {
  plain::pack_trits(digits, row, 0, out);
}
std::size_t EncodeGroups(const BucketRule&, const float*, float*, std::size_t, const EntryBits&, std::size_t,
                         std::byte*, std::uint8_t*) {
  return 0;
}
#else

#include "level_values.inl"
// After level_values.inl.
#include "level_measure.inl"

Measured MeasureAny(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  return MeasureFrom<true>(what, x, e, v, n);
}

void Draw(const EntryBits& random, std::size_t group, Draws* draws) {
  DrawWith(random, group, draws, [](std::size_t, std::size_t) {});
}

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
template <unsigned kBits, bool kRange, Position kPosition>
struct Rounding {
  /// Of the float that a sum without its lower bits is: kBase + field.
  static constexpr auto kBase = static_cast<float>(1u << kBits);
  explicit HWY_INLINE Rounding(const Levels& levels)
      : shift(hn::Set(Tag(), levels.shift)),
        origin(hn::Set(Tag(), levels.origin)),
        inverse(hn::Set(Tag(), levels.inverse)),
        least(hn::Set(Tag(), levels.least)),
        most(hn::Set(Tag(), levels.most)),
        mask(hn::Set(WordTag(), levels.draw_mask)),
        start(hn::Set(WordTag(), levels.start)),
        values(levels, kBase),
        table(values.Value(hn::Iota(Tag(), kBase))),
        upper_table(values.Value(hn::Iota(Tag(), kBase + kWidth % 16))) {}
  Vector shift, origin, inverse, least, most;
  Words mask, start;
  LevelVectors<kRange> values;
  Vector table, upper_table;  ///< levels of the lowest fields, and of those after them

  /// The levels of sums.
  HWY_INLINE Vector LevelOf(Words sums) const;
};

/// Sums p + 2^bits + zero + u, of which the fields are the upper bits of the fraction, of a register of
/// entries whose draws are the low (kHigh: high) halves of the words.
template <unsigned kBits, bool kHigh, bool kRange, Position kPosition>
HWY_INLINE Words Sums(const Rounding<kBits, kRange, kPosition>& rounding, Vector entries, Words word) {
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
  return hn::BitCast(WordTag(), hn::Add(p, drawn));
}

/// Moves the fields of sums to byte kByte of each word; what stands around them stays.
template <unsigned kBits, int kByte>
HWY_INLINE Words Placed(Words sums) {
  constexpr int kRight = 23 - static_cast<int>(kBits) - 8 * kByte;
  if constexpr (kRight >= 0) return hn::ShiftRight<(kRight < 0 ? 0 : kRight)>(sums);
  return hn::ShiftLeft<(kRight < 0 ? -kRight : 0)>(sums);
}

template <unsigned kBits, bool kRange, Position kPosition>
HWY_INLINE Vector Rounding<kBits, kRange, kPosition>::LevelOf(Words sums) const {
  const Tag tag;
  if constexpr (kBits <= 4 && kWidth >= 8) {
    const auto low =
        hn::And(Placed<kBits, 0>(sums), hn::Set(WordTag(), (kBits < 4 ? 1u << kBits : unsigned{kWidth}) - 1));
    const auto index = hn::IndicesFromVec(tag, hn::BitCast(IntTag(), low));
    const Vector level = hn::TableLookupLanes(table, index);
    if constexpr (kBits < 4 || kWidth == 16) return level;
    // The field's highest bit becomes the sign.
    const Vector upper = hn::BitCast(tag, hn::ShiftLeft<9>(sums));
    return hn::IfNegativeThenElse(upper, hn::TableLookupLanes(upper_table, index), level);
  }
  const Words whole = hn::And(sums, hn::Set(WordTag(), ~((1u << (23 - kBits)) - 1)));
  return values.Value(hn::BitCast(tag, whole));
}

/// Sums of one register of entries, and its residual.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE Words QuantisePart(const Rounding<kBits, kRange, kPosition>& rounding, const float* v,
                              const std::uint32_t* words, float* residual, std::size_t i) {
  const Tag tag;
  const Vector entries = hn::LoadU(tag, v + i);
  const Words sums = Sums<kBits, kHigh>(rounding, entries, hn::LoadU(WordTag(), words + i));
  if constexpr (kFeedback) {
    hn::StoreU(hn::Sub(entries, rounding.LevelOf(sums)), tag, residual + i);
  }
  return sums;
}

/// One block of kBytes entries.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE void QuantiseBlock(const Rounding<kBits, kRange, kPosition>& rounding, const float* v,
                              const std::uint32_t* words, std::uint8_t* fields, float* residual) {
  constexpr auto kPart = QuantisePart<kBits, kHigh, kFeedback, kRange, kPosition>;
  const Words sums0 = kPart(rounding, v, words, residual, 0);
  const Words sums1 = kPart(rounding, v, words, residual, kWidth);
  const Words sums2 = kPart(rounding, v, words, residual, 2 * kWidth);
  const Words sums3 = kPart(rounding, v, words, residual, 3 * kWidth);
  const auto mask = [](unsigned byte) { return hn::Set(WordTag(), ((1u << kBits) - 1) << (8 * byte)); };
  Words packed = hn::And(Placed<kBits, 0>(sums0), mask(0));
  packed = hn::OrAnd(packed, Placed<kBits, 1>(sums1), mask(1));
  packed = hn::OrAnd(packed, Placed<kBits, 2>(sums2), mask(2));
  packed = hn::OrAnd(packed, Placed<kBits, 3>(sums3), mask(3));
  hn::StoreU(InOrder(packed), AllBytesTag(), fields);
}

/// Entries whose draws are one row's halves. What is left of a block is padded: words may be read past the
/// row.
template <unsigned kBits, bool kHigh, bool kFeedback, bool kRange, Position kPosition>
HWY_INLINE void QuantiseRun(const Rounding<kBits, kRange, kPosition>& rounding, const float* v, std::size_t n,
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
  const Rounding<kBits, kRange, kPosition> rounding(levels);
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

/// 3·(3·(3·(3·d₄ + d₃) + d₂) + d₁) + d₀.
void PackTrits(const std::uint8_t* digits, std::size_t row, std::uint8_t* out) {
  const AllBytesTag tag;
  std::size_t b = 0;
  for (; b + kBytes <= row; b += kBytes) {
    auto byte = hn::LoadU(tag, digits + 4 * row + b);
    for (std::size_t k = 4; k-- > 0;)
      byte = hn::Add(hn::Add(byte, byte), hn::Add(byte, hn::LoadU(tag, digits + k * row + b)));
    hn::StoreU(byte, tag, out + b);
  }
  plain::pack_trits(digits, row, b, out);
}

void PackGroup(unsigned bits, Fields& fields, std::uint8_t* out) {
  if (bits != 2 && bits != 4)
    return pack_fields(bits, fields, fields.size(), reinterpret_cast<std::byte*>(out));
  if (bits == 4) return PackPairs(4, fields.data(), fields.size(), out);
  Fields twos;
  PackPairs(2, fields.data(), fields.size(), twos.data());
  PackPairs(4, twos.data(), fields.size() / 2, out);
}

/// The entries to come of x and e, asked for a few lines at a time between arithmetic: memory then answers
/// while there is other work, and the loads that follow find them in the cache.
class Ahead {
 public:
  HWY_INLINE Ahead(const float* x, const float* e) : x_(x), e_(e) {}
  /// Lines first … first + count of the 32 that one group has.
  HWY_INLINE void Fetch(std::size_t first, std::size_t count) const {
    for (std::size_t i = first * 16; i < (first + count) * 16; i += 16) {
      hwy::Prefetch(plain::ahead(x_, i));
      if (e_ != nullptr) hwy::Prefetch(plain::ahead(e_, i));
    }
  }

 private:
  const float *x_, *e_;
};

std::size_t EncodeGroups(const BucketRule& rule, const float* x, float* e, std::size_t groups,
                         const EntryBits& random, std::size_t first, std::byte* scales,
                         std::uint8_t* fields) {
  constexpr std::size_t kGroup = EntryBits::kGroup;
  alignas(64) float room[kGroup];
  alignas(64) Fields unpacked;
  Draws draws;
  float scale[kGroup / kLeastBucket][2];
  const std::size_t scale_bytes = rule.scales() * sizeof(float);
  const unsigned stored = rule.field_bits();
  for (std::size_t g = 0; g < groups; ++g, x += kGroup) {
    const Ahead ahead(x, e);
    for (std::size_t i = 0, b = 0; i < kGroup; i += rule.bucket, ++b, scales += scale_bytes) {
      const Measured found =
          MeasureFrom<false>(rule.measure, x + i, e == nullptr ? nullptr : e + i, room + i, rule.bucket);
      if (!scales_of(rule.measure, found, scale[b])) return g;
      std::memcpy(scales, scale[b], scale_bytes);
    }
    if (rule.stochastic) {
      DrawWith(random, first + g, &draws,
               [&](std::size_t from, std::size_t count) { ahead.Fetch(from / 4, count / 4); });
    } else {
      ahead.Fetch(0, 16);
    }
    const float* const v = e == nullptr ? x : room;
    std::uint8_t* const to = stored == 8 ? fields : unpacked.data();
    for (std::size_t i = 0, b = 0; i < kGroup; i += rule.bucket, ++b) {
      const Levels levels = levels_of(rule, scale[b]);
      ahead.Fetch(16 + i / 32, rule.bucket / 32);
      QuantiseAny(levels, v + i, rule.bucket, draws, i, to + i, e == nullptr ? nullptr : e + i);
    }
    if (stored != 8) PackGroup(stored, unpacked, fields);
    fields += kGroup / 8 * stored;
    if (e != nullptr) e += kGroup;
  }
  return groups;
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
HWY_EXPORT(Draw);
HWY_EXPORT(QuantiseAny);
HWY_EXPORT(PackPairs);
HWY_EXPORT(PackTrits);
HWY_EXPORT(EncodeGroups);

}  // namespace

Measured measure(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(MeasureAny)(what, x, e, v, n);
}

void draw(const EntryBits& random, std::size_t group, Draws& draws) {
  HWY_DYNAMIC_DISPATCH(Draw)(random, group, &draws);
}

void quantise(const Levels& levels, const float* v, std::size_t n, const Draws& draws, std::size_t first,
              std::uint8_t* fields, float* residual) {
  HWY_DYNAMIC_DISPATCH(QuantiseAny)(levels, v, n, draws, first, fields, residual);
}

void pack_pairs(unsigned bits, const std::uint8_t* fields, std::size_t n, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PackPairs)(bits, fields, n, out);
}

void pack_trits(const std::uint8_t* digits, std::size_t row, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PackTrits)(digits, row, out);
}

std::size_t encode_groups(const BucketRule& rule, const float* x, float* e, std::size_t groups,
                          const EntryBits& random, std::size_t first, std::byte* scales,
                          std::uint8_t* fields) {
  return HWY_DYNAMIC_DISPATCH(EncodeGroups)(rule, x, e, groups, random, first, scales, fields);
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
