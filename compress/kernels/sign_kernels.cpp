// Compiled once for each instruction set that Highway knows, as kernels.cpp is.
#include "sign_kernels.h"

#include <algorithm>

#include "sign_kernels_inline.h"
#include "targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sign_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::compress {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, plain::kLanes>;
using Vector = hn::Vec<Tag>;
using Mask = hn::Mask<Tag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
static_assert(plain::kLanes % kWidth == 0);

constexpr std::size_t kWord = 32;  ///< entries that are worked on together
constexpr std::size_t kHalfWord = 16;
constexpr std::size_t kAhead = 1024;  ///< entries from those worked on to those fetched
constexpr std::size_t kLine = 16;     ///< entries of a cache line

/// Fetches a word.
HWY_INLINE void FetchAhead(const float* x) {
  for (std::size_t i = 0; i < kWord; i += kLine) hwy::Prefetch(x + kAhead + i);
}

#if HWY_TARGET != HWY_SCALAR
constexpr std::size_t kVectors = plain::kLanes / kWidth;

/// plain::combine_lanes of a vector that holds lanes 0 to its width.
template <class D>
HWY_INLINE float CombineVector(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return CombineVector(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
}

HWY_INLINE float CombineLanes(const Vector* lanes) {
  Vector sum[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) sum[k] = lanes[k];
  for (std::size_t width = kVectors / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) sum[k] = hn::Add(sum[k], sum[k + width]);
  }
  return CombineVector(Tag(), sum[0]);
}

/// The two sums of a block, still in lanes.
template <Sums kKind>
class Lanes {
 public:
  HWY_INLINE Lanes() {
    for (std::size_t k = 0; k < kVectors; ++k) first_[k] = second_[k] = hn::Zero(Tag());
  }
  HWY_INLINE void Add(std::size_t part, Vector v, Mask positive) {
    Vector& first = first_[part % kVectors];
    Vector& second = second_[part % kVectors];
    if constexpr (kKind == Sums::sides) {
      first = hn::Add(first, hn::IfThenElseZero(positive, v));
      second = hn::Add(second, hn::IfThenZeroElse(positive, v));
    } else {
      first = hn::Add(first, hn::Abs(v));
      if constexpr (kKind == Sums::norms) second = hn::Add(second, hn::Mul(v, v));
    }
  }
  HWY_INLINE void Count(std::uint32_t word) {
    if constexpr (kKind == Sums::sides) positive_ += static_cast<std::uint32_t>(hwy::PopCount(word));
  }
  /// False where an entry was NaN or Inf, or a sum left float's range.
  HWY_INLINE bool Finite() const {
    const Tag tag;
    Mask finite = hn::Lt(Size(0), hn::Inf(tag));
    for (std::size_t k = 1; k < kVectors; ++k) finite = hn::And(finite, hn::Lt(Size(k), hn::Inf(tag)));
    return hn::AllTrue(tag, finite);
  }
  HWY_INLINE BucketSums Combine() const {
    return {CombineLanes(first_), kKind == Sums::l1 ? 0 : CombineLanes(second_), positive_};
  }
  HWY_INLINE plain::SignSums Store() const {
    plain::SignSums sums;
    sums.positive = positive_;
    for (std::size_t k = 0; k < kVectors; ++k) {
      hn::StoreU(first_[k], Tag(), sums.l1.data() + k * kWidth);
      hn::StoreU(second_[k], Tag(), sums.l2_squared.data() + k * kWidth);
    }
    return sums;
  }

 private:
  HWY_INLINE Vector Size(std::size_t k) const {
    return kKind == Sums::sides ? hn::Sub(first_[k], second_[k]) : first_[k];
  }
  Vector first_[kVectors], second_[kVectors];
  std::uint32_t positive_ = 0;
};

template <std::size_t kEntries>
HWY_INLINE std::uint32_t Bits(const Mask* positive) {
  std::uint32_t word = 0;
  for (std::size_t k = 0; k < kEntries / kWidth; ++k) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(Tag(), positive[k], bytes);
    std::uint16_t bits = bytes[0];
    if constexpr (kWidth > 8) std::memcpy(&bits, bytes, sizeof bits);
    word |= static_cast<std::uint32_t>(bits) << (k * kWidth);
  }
  return word;
}

/// A bucket's pending values, each in every lane.
struct Pending {
  HWY_INLINE explicit Pending(SignPair pair)
      : plus(hn::Set(Tag(), pair.plus)), minus(hn::Set(Tag(), pair.minus)) {}
  Vector plus, minus;
};

/// kWord or kHalfWord entries. Returns the first that is not finite, or kEntries.
template <Sums kKind, bool kFeedback, std::size_t kEntries>
HWY_INLINE std::size_t ScanWord(const float* HWY_RESTRICT g, float* HWY_RESTRICT p, const Pending& pending,
                                std::byte* HWY_RESTRICT signs, Lanes<kKind>& lanes) {
  const Tag tag;
  constexpr std::size_t kParts = kEntries / kWidth;
  std::size_t bad = kEntries;
  Vector v[kParts], e[kParts];
  Mask positive[kParts];
  for (std::size_t k = 0; k < kParts; ++k) {
    v[k] = hn::LoadU(tag, g + k * kWidth);
    if constexpr (kFeedback) {
      const Vector q = hn::LoadU(tag, p + k * kWidth);
      e[k] = hn::Sub(q, hn::IfThenElse(hn::Ge(q, hn::Zero(tag)), pending.plus, pending.minus));
      v[k] = hn::Add(v[k], e[k]);
    }
    positive[k] = hn::Ge(v[k], hn::Zero(tag));
    lanes.Add(k, v[k], positive[k]);
  }
  if constexpr (kFeedback) {
    if (HWY_LIKELY(lanes.Finite())) {
      for (std::size_t k = 0; k < kParts; ++k) hn::StoreU(v[k], tag, p + k * kWidth);
    } else {
      for (std::size_t k = 0; k < kParts; ++k) hn::StoreU(e[k], tag, p + k * kWidth);
      bad = plain::take_in(g, p, kEntries);
    }
  }
  const std::uint32_t word = Bits<kEntries>(positive);
  lanes.Count(word);
  std::memcpy(signs, &word, kEntries / 8);
  return bad;
}

/// kWord entries at a time, of which n is a multiple. Returns the first entry that is not finite, or n.
template <Sums kKind, bool kFeedback>
HWY_INLINE std::size_t ScanWords(const float* g, float* p, const Pending& pending, std::size_t n,
                                 std::byte* signs, Lanes<kKind>& lanes) {
  std::size_t bad = n;
  const float* const end = g + n;
  for (const float* x = g; x != end; x += kWord, signs += kWord / 8) {
    FetchAhead(x);
    if constexpr (kFeedback) FetchAhead(p);
    const std::size_t at = ScanWord<kKind, kFeedback, kWord>(x, p, pending, signs, lanes);
    if (HWY_UNLIKELY(at != kWord)) bad = std::min(bad, static_cast<std::size_t>(x - g) + at);
    if constexpr (kFeedback) p += kWord;
  }
  return bad;
}

/// `count` buckets of one block each, which is a multiple of kWord. By itself, so that the loops find all
/// that they need in registers.
template <Sums kKind, bool kFeedback>
HWY_NOINLINE std::size_t ScanWhole(const SignScan& scan, std::size_t count, float* p,
                                   const SignPair* pending) {
  const std::size_t bucket = scan.bucket;
  std::size_t bad = scan.n;
  for (std::size_t b = 0; b < count; ++b) {
    const Pending values(kFeedback ? pending[b] : SignPair{});
    Lanes<kKind> lanes;
    const std::size_t at = b * bucket,
                      found = ScanWords<kKind, kFeedback>(scan.g + at, kFeedback ? p + at : nullptr, values,
                                                          bucket, scan.signs + b * scan.stride, lanes);
    if (HWY_UNLIKELY(found != bucket)) bad = std::min(bad, at + found);
    scan.sums[b] = lanes.Combine();
  }
  return bad;
}
#endif

/// A block of at most 4096 entries; p is null unless kFeedback.
template <Sums kKind, bool kFeedback>
HWY_NOINLINE std::size_t ScanBlock(const float* g, float* p, SignPair pending, std::size_t n,
                                   std::byte* signs, BucketSums* result) {
  std::size_t i = 0, bad = n;
  plain::SignSums sums;
#if HWY_TARGET != HWY_SCALAR
  i = n / kWord * kWord;
  Lanes<kKind> lanes;
  const Pending values(pending);
  const std::size_t found = ScanWords<kKind, kFeedback>(g, p, values, i, signs, lanes);
  if (HWY_UNLIKELY(found != i)) bad = found;
  // Halves of a bucket that is split are often of 16 entries.
  if (n - i >= kHalfWord) {
    const std::size_t more = ScanWord<kKind, kFeedback, kHalfWord>(g + i, kFeedback ? p + i : nullptr, values,
                                                                   signs + i / 8, lanes);
    if (HWY_UNLIKELY(more != kHalfWord)) bad = std::min(bad, i + more);
    i += kHalfWord;
  }
  if (HWY_LIKELY(i == n)) {
    *result = lanes.Combine();
    return bad;
  }
  sums = lanes.Store();
#endif
  for (; i < n; i += kWord) {
    const std::size_t d = std::min(kWord, n - i);
    const std::size_t at =
        plain::scan_word<kKind>(g + i, kFeedback ? p + i : nullptr, pending, d, sums, signs + i / 8);
    if (at != d) bad = std::min(bad, i + at);
  }
  *result = sums.combine();
  return bad;
}

template <Sums kKind, bool kFeedback>
HWY_INLINE std::size_t ScanBuckets(const SignScan& scan, float* p, const SignPair* pending) {
  std::size_t bad = scan.n, b = 0;
#if HWY_TARGET != HWY_SCALAR
  if (scan.bucket <= plain::kBlock) {
    b = scan.n / scan.bucket;
    bad = ScanWhole<kKind, kFeedback>(scan, b, p, pending);
  }
#endif
  for (std::size_t start = b * scan.bucket; start < scan.n; start += scan.bucket, ++b) {
    const std::size_t d = std::min(scan.bucket, scan.n - start);
    plain::BlockTree tree;
    std::uint32_t positive = 0;
    for (std::size_t i = 0; i < d; i += plain::kBlock) {
      const std::size_t at = start + i, count = std::min(plain::kBlock, d - i);
      const std::size_t found = ScanBlock<kKind, kFeedback>(
          scan.g + at, kFeedback ? p + at : nullptr, kFeedback ? pending[b] : SignPair{}, count,
          scan.signs + b * scan.stride + i / 8, &scan.sums[b]);
      if (HWY_UNLIKELY(found != count)) bad = std::min(bad, at + found);
      if (d <= plain::kBlock) break;
      tree.add(scan.sums[b].first, scan.sums[b].second);
      positive += scan.sums[b].positive;
    }
    if (d > plain::kBlock) scan.sums[b] = {tree.l1(), tree.l2_squared(), positive};
  }
  return bad;
}

template <bool kFeedback>
HWY_INLINE std::size_t ScanKind(Sums kind, const SignScan& scan, float* p, const SignPair* pending) {
  switch (kind) {
    case Sums::l1:
      return ScanBuckets<Sums::l1, kFeedback>(scan, p, pending);
    case Sums::norms:
      return ScanBuckets<Sums::norms, kFeedback>(scan, p, pending);
    case Sums::sides:
      return ScanBuckets<Sums::sides, kFeedback>(scan, p, pending);
  }
  return scan.n;
}

std::size_t Scan(Sums kind, const SignScan& scan, float* p, const SignPair* pending) {
  return p == nullptr ? ScanKind<false>(kind, scan, p, pending) : ScanKind<true>(kind, scan, p, pending);
}

#if HWY_TARGET != HWY_SCALAR
/// Lanes of the entries whose signs begin at `first` of the bytes at signs.
HWY_INLINE Mask SignMask(const std::byte* signs, std::size_t first) {
  std::uint8_t bits[8] = {};
  std::memcpy(bits, signs + first / 8, kWidth >= 8 ? kWidth / 8 : 1);
  if constexpr (kWidth < 8) bits[0] = static_cast<std::uint8_t>(bits[0] >> (first % 8)) & 0xfu;
  return hn::LoadMaskBits(Tag(), bits);
}
#endif

void Subtract(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, float* HWY_RESTRICT out,
              std::size_t n) {
  const Tag tag;
  std::size_t i = 0;
  for (; i + kWord <= n; i += kWord) {
    FetchAhead(x + i);
    FetchAhead(y + i);
    for (std::size_t j = i; j < i + kWord; j += kWidth)
      hn::StoreU(hn::Sub(hn::LoadU(tag, x + j), hn::LoadU(tag, y + j)), tag, out + j);
  }
  for (; i < n; ++i) out[i] = x[i] - y[i];
}

void AddLeaves(const SignLeaf* HWY_RESTRICT leaves, std::size_t count, float* HWY_RESTRICT acc) {
  for (const SignLeaf* leaf = leaves; leaf != leaves + count; ++leaf) {
    std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const Tag tag;
    const Vector plus = hn::Set(tag, leaf->pair.plus), minus = hn::Set(tag, leaf->pair.minus);
    for (; i + kWord <= leaf->n; i += kWord) {
      FetchAhead(acc + i);
      for (std::size_t j = i; j < i + kWord; j += kWidth) {
        const Vector step = hn::IfThenElse(SignMask(leaf->signs, j), plus, minus);
        hn::StoreU(hn::Add(hn::LoadU(tag, acc + j), step), tag, acc + j);
      }
    }
    for (; i + kHalfWord <= leaf->n; i += kHalfWord) {
      for (std::size_t j = i; j < i + kHalfWord; j += kWidth) {
        const Vector step = hn::IfThenElse(SignMask(leaf->signs, j), plus, minus);
        hn::StoreU(hn::Add(hn::LoadU(tag, acc + j), step), tag, acc + j);
      }
    }
#endif
    plain::add_leaf_tail(leaf->signs + i / 8, leaf->pair, acc + i, leaf->n - i);
    acc += leaf->n;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::compress {
namespace {

HWY_EXPORT(Scan);
HWY_EXPORT(AddLeaves);
HWY_EXPORT(Subtract);

}  // namespace

void scan_signs(Sums kind, const SignScan& scan) { HWY_DYNAMIC_DISPATCH(Scan)(kind, scan, nullptr, nullptr); }

std::size_t scan_signs(Sums kind, const SignScan& scan, float* p, const SignPair* pending) {
  return HWY_DYNAMIC_DISPATCH(Scan)(kind, scan, p, pending);
}

void subtract(const float* x, const float* y, float* out, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(Subtract)(x, y, out, n);
}

void add_leaves(std::span<const SignLeaf> leaves, float* acc) {
  HWY_DYNAMIC_DISPATCH(AddLeaves)(leaves.data(), leaves.size(), acc);
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
