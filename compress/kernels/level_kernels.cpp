// Compiled once for each instruction set that Highway knows, and chosen when first called.
#include "level_kernels.h"

#include <algorithm>

#include "level_kernels_inline.h"
#include "targets.h"

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
void AddLevels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  plain::add_levels(levels, fields, weight, acc, n);
}
void UnpackPairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  plain::unpack_pairs(bits, in, n, fields);
}
bool UnpackTrits(const std::uint8_t* in, std::size_t row, std::uint8_t* digits) {
  return plain::unpack_trits(in, row, 0, digits);
}
bool AllWithin(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return plain::all_within(fields, n, top);
}
#else

#include "level_values.inl"

template <bool kRange>
void AddLevelsAs(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  const Tag tag;
  const IntTag int_tag;
  const ByteTag byte_tag;
  const LevelVectors<kRange> values(levels);
  const Vector weights = hn::Set(tag, weight);
  std::size_t i = 0;
  if (kWidth >= 8 && levels.top < kWidth) {
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

bool UnpackTrits(const std::uint8_t* in, std::size_t row, std::uint8_t* digits) {
  const PairTag tag;
  constexpr std::size_t kHalf = kBytes / 2;
  const hn::RebindToSigned<PairTag> signed_tag;
  const auto third_of = hn::Set(tag, 171);
  auto highest = hn::Zero(tag);
  std::size_t b = 0;
  for (; b + kHalf <= row; b += kHalf) {
    auto rest = hn::PromoteTo(tag, hn::LoadU(HalfBytesTag(), in + b));
    highest = hn::Max(highest, rest);
    for (std::size_t k = 0; k < plain::kTritsPerByte; ++k) {
      const auto third = hn::ShiftRight<9>(hn::Mul(rest, third_of));
      const auto digit = hn::Sub(hn::Sub(rest, third), hn::Add(third, third));
      hn::StoreU(hn::DemoteTo(HalfBytesTag(), hn::BitCast(signed_tag, digit)), HalfBytesTag(),
                 digits + k * row + b);
      rest = third;
    }
  }
  const bool rest_whole = plain::unpack_trits(in, row, b, digits);
  return rest_whole && hn::AllTrue(tag, hn::Lt(highest, hn::Set(tag, plain::kTritBytes)));
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

HWY_EXPORT(AddLevels);
HWY_EXPORT(UnpackTrits);
HWY_EXPORT(UnpackPairs);
HWY_EXPORT(AllWithin);

}  // namespace

void add_levels(const Levels& levels, const std::uint8_t* fields, float weight, float* acc, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(AddLevels)(levels, fields, weight, acc, n);
}

bool unpack_trits(const std::uint8_t* in, std::size_t row, std::uint8_t* digits) {
  return HWY_DYNAMIC_DISPATCH(UnpackTrits)(in, row, digits);
}

void unpack_pairs(unsigned bits, const std::uint8_t* in, std::size_t n, std::uint8_t* fields) {
  HWY_DYNAMIC_DISPATCH(UnpackPairs)(bits, in, n, fields);
}

bool all_within(const std::uint8_t* fields, std::size_t n, unsigned top) {
  return HWY_DYNAMIC_DISPATCH(AllWithin)(fields, n, top);
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
