// Compiled once for each instruction set, like kernels.cpp. Candidates are rare: a group is loaded, formed
// and compared as a whole, and only where some entry is large does it look which.
#include "select_kernels.h"

#include <algorithm>
#include <cstring>

#include "select_kernels_inline.h"

// Vectors of unknown size cannot be kept in arrays; those machines use their fixed-size sets.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "select_kernels.cpp"
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
using IntTag = hn::RebindToSigned<Tag>;
using Vector = hn::Vec<Tag>;
using IntVector = hn::Vec<IntTag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kVectors = kGroup / kWidth;
static_assert(plain::kLanes % kWidth == 0);

HWY_INLINE IntVector Magnitude(Vector v) {
  return hn::And(hn::BitCast(IntTag(), v), hn::Set(IntTag(), 0x7fffffff));
}

/// v as it stands in g.
struct Ready {
  explicit Ready(const Source& source) : g(source.g.data()) {}
  HWY_INLINE Vector Load(std::size_t i, Vector&) const { return hn::LoadU(Tag(), g + i); }
  HWY_INLINE void Store(std::size_t, Vector, Vector) const {}
  HWY_INLINE void Prefetch(std::size_t i) const { hwy::Prefetch(g + i); }
  const float* HWY_RESTRICT g;
};

/// sum ← sum + g.
struct Added {
  explicit Added(const Source& source) : g(source.g.data()), sum(source.sum) {}
  HWY_INLINE Vector Load(std::size_t i, Vector&) const {
    return hn::Add(hn::LoadU(Tag(), sum + i), hn::LoadU(Tag(), g + i));
  }
  HWY_INLINE void Store(std::size_t i, Vector v, Vector) const { hn::StoreU(v, Tag(), sum + i); }
  HWY_INLINE void Prefetch(std::size_t i) const {
    hwy::Prefetch(g + i);
    hwy::Prefetch(sum + i);
  }
  const float* HWY_RESTRICT g;
  float* HWY_RESTRICT sum;
};

/// velocity ← momentum·velocity + g; sum ← sum + velocity.
struct Accelerated {
  explicit Accelerated(const Source& source)
      : g(source.g.data()), sum(source.sum), velocity(source.velocity), momentum(source.momentum) {}
  HWY_INLINE Vector Load(std::size_t i, Vector& u) const {
    const Vector kept = hn::Mul(hn::Set(Tag(), momentum), hn::LoadU(Tag(), velocity + i));
    u = hn::Add(kept, hn::LoadU(Tag(), g + i));
    return hn::Add(hn::LoadU(Tag(), sum + i), u);
  }
  HWY_INLINE void Store(std::size_t i, Vector v, Vector u) const {
    hn::StoreU(v, Tag(), sum + i);
    hn::StoreU(u, Tag(), velocity + i);
  }
  HWY_INLINE void Prefetch(std::size_t i) const {
    hwy::Prefetch(g + i);
    hwy::Prefetch(sum + i);
    hwy::Prefetch(velocity + i);
  }
  const float* HWY_RESTRICT g;
  float* HWY_RESTRICT sum;
  float* HWY_RESTRICT velocity;
  float momentum;
};

#if HWY_TARGET != HWY_SCALAR
/// Bit j of the result is lane j of mask.
HWY_INLINE std::uint64_t Bits(hn::Mask<IntTag> mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(IntTag(), mask, bytes);
  std::uint64_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

/// Appends the entries of a group whose bit is set, where there is room for a group; returns how many they
/// are.
HWY_INLINE std::size_t Append(const float* group, std::uint64_t bits, std::uint32_t first, EntryList& list) {
  const auto count = static_cast<std::size_t>(std::popcount(bits));
  if (!plain::has_room(list)) return count;
  std::uint32_t* HWY_RESTRICT indices = list.indices + list.size;
  float* HWY_RESTRICT values = list.values + list.size;
  for (; bits != 0; bits &= bits - 1) {
    const auto at = static_cast<std::uint32_t>(std::countr_zero(bits));
    *indices++ = first + at;
    *values++ = group[at];
  }
  list.size += count;
  return count;
}

/// The rare part of a pass: counts and lists what is larger than `below`.
HWY_INLINE std::size_t ListGroup(const float* group, IntVector below, std::uint32_t first, EntryList& list) {
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < kGroup; k += kWidth)
    bits |= Bits(hn::Gt(Magnitude(hn::LoadU(Tag(), group + k)), below)) << k;
  return Append(group, bits, first, list);
}
#endif

template <class Form>
Emitted EmitFrom(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t kAhead = 2048;
  const Form form(source);
  const IntTag tag;
  const IntVector below = hn::Set(tag, static_cast<std::int32_t>(threshold) - 1);
  const IntVector finite = hn::Set(tag, static_cast<std::int32_t>(kInfinityBits) - 1);
  for (; i + kGroup <= source.g.size(); i += kGroup) {
    for (std::size_t line = 0; line < kGroup; line += 16) form.Prefetch(i + kAhead + line);
    Vector v[kVectors], u[kVectors];
    IntVector most = hn::Zero(tag);
    for (std::size_t k = 0; k < kVectors; ++k) {
      v[k] = form.Load(i + k * kWidth, u[k]);
      most = hn::Max(most, Magnitude(v[k]));
    }
    if (!hn::AllFalse(tag, hn::Gt(most, below))) {
      if (!hn::AllFalse(tag, hn::Gt(most, finite))) return {count, i};
      float group[kGroup];
      for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(v[k], Tag(), group + k * kWidth);
      count += ListGroup(group, below, first + static_cast<std::uint32_t>(i), list);
    }
    for (std::size_t k = 0; k < kVectors; ++k) form.Store(i + k * kWidth, v[k], u[k]);
  }
#endif
  return plain::emit_reaching_from(source, i, count, threshold, first, list);
}

void EmitReaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                  Emitted* result) {
  if (source.velocity != nullptr) {
    *result = EmitFrom<Accelerated>(source, threshold, first, list);
  } else if (source.sum != nullptr) {
    *result = EmitFrom<Added>(source, threshold, first, list);
  } else {
    *result = EmitFrom<Ready>(source, threshold, first, list);
  }
}

std::size_t EmitEqual(const float* v, std::size_t n, MagnitudeBits magnitude, std::size_t enough,
                      std::uint32_t first, EntryList& list) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  const IntTag tag;
  const IntVector wanted = hn::Set(tag, static_cast<std::int32_t>(magnitude));
  for (; i + kGroup <= n && count < enough; i += kGroup) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < kGroup; k += kWidth)
      bits |= Bits(hn::Eq(Magnitude(hn::LoadU(Tag(), v + i + k)), wanted)) << k;
    if (bits != 0) count += Append(v + i, bits, first + static_cast<std::uint32_t>(i), list);
  }
#endif
  return plain::emit_equal_from({v, n}, i, count, magnitude, enough, first, list);
}

/// kBlocks whole blocks side by side, so that additions of one need not wait for those of another.
template <std::size_t kBlocks>
void SumBlocks(const float* HWY_RESTRICT x, plain::MomentTree& tree) {
  const Tag tag;
  constexpr std::size_t kParts = plain::kLanes / kWidth, kChains = kBlocks * kParts;
  Vector sum[kChains], l1[kChains], l2[kChains];
  IntVector largest = hn::Zero(IntTag());
  for (std::size_t c = 0; c < kChains; ++c) sum[c] = l1[c] = l2[c] = hn::Zero(tag);
  for (std::size_t i = 0; i < plain::kBlock; i += plain::kLanes) {
    for (std::size_t c = 0; c < kChains; ++c) {
      const Vector v = hn::LoadU(tag, x + (c / kParts) * plain::kBlock + i + (c % kParts) * kWidth);
      largest = hn::Max(largest, Magnitude(v));
      sum[c] = hn::Add(sum[c], v);
      l1[c] = hn::Add(l1[c], hn::Abs(v));
      l2[c] = hn::Add(l2[c], hn::Mul(v, v));
    }
  }
  for (std::size_t b = 0; b < kBlocks; ++b) {
    plain::MomentLanes lanes;
    const hn::RebindToUnsigned<Tag> words;
    hn::StoreU(hn::BitCast(words, largest), words, lanes.largest.data());
    for (std::size_t p = 0; p < kParts; ++p) {
      hn::StoreU(sum[b * kParts + p], tag, lanes.sum.data() + p * kWidth);
      hn::StoreU(l1[b * kParts + p], tag, lanes.l1.data() + p * kWidth);
      hn::StoreU(l2[b * kParts + p], tag, lanes.l2_squared.data() + p * kWidth);
    }
    tree.add(lanes.total());
  }
}

void SumMoments(const float* x, std::size_t n, MomentSums* result) {
  // As many chains as registers hold.
  constexpr std::size_t kSide = kWidth >= 16 ? 4 : 1;
  plain::MomentTree tree;
  std::size_t i = 0;
  for (; i + kSide * plain::kBlock <= n; i += kSide * plain::kBlock) SumBlocks<kSide>(x + i, tree);
  for (; i + plain::kBlock <= n; i += plain::kBlock) SumBlocks<1>(x + i, tree);
  if (i < n) {
    plain::MomentLanes lanes;
    lanes.add(x + i, n - i);
    tree.add(lanes.total());
  }
  *result = tree.total();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::compress {
namespace {

HWY_EXPORT(EmitReaching);
HWY_EXPORT(EmitEqual);
HWY_EXPORT(SumMoments);

}  // namespace

Emitted emit_reaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list) {
  Emitted result;
  HWY_DYNAMIC_DISPATCH(EmitReaching)(source, threshold, first, list, &result);
  return result;
}

std::size_t emit_equal(std::span<const float> v, MagnitudeBits magnitude, std::size_t enough,
                       std::uint32_t first, EntryList& list) {
  return HWY_DYNAMIC_DISPATCH(EmitEqual)(v.data(), v.size(), magnitude, enough, first, list);
}

MomentSums moment_sums(std::span<const float> v) {
  MomentSums result;
  HWY_DYNAMIC_DISPATCH(SumMoments)(v.data(), v.size(), &result);
  return result;
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
