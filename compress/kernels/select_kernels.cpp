// Compiled once for each instruction set, like kernels.cpp. Which entries are large cannot be foreseen, and a
// branch that guesses wrong costs as much as a group: a pass notes a bit for each group of a block, and looks
// into those with large entries afterwards.
#include "select_kernels.h"

#include <algorithm>
#include <cstring>

#include "select_kernels_inline.h"
#include "targets.h"

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
constexpr std::size_t kVectors = kListGroup / kWidth;
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
  const float* Formed() const { return g; }
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
  const float* Formed() const { return sum; }
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
  const float* Formed() const { return sum; }
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
  const auto take = [&] {
    const auto at = static_cast<std::uint32_t>(std::countr_zero(bits)) % std::uint32_t{kListGroup};
    bits &= bits - 1;
    *indices++ = first + at;
    *values++ = group[at];
  };
  // Mostly there are one or two, which cannot be foreseen: what is too much is written over.
  take();
  take();
  while (bits != 0) take();
  list.size += count;
  return count;
}

/// Counts and lists what is larger than `below` in those groups of a block whose bit is set.
std::size_t ListGroups(const float* block, std::uint64_t groups, IntVector below, std::uint32_t first,
                       EntryList& list) {
  std::size_t count = 0;
  for (; groups != 0; groups &= groups - 1) {
    const std::size_t at = static_cast<std::size_t>(std::countr_zero(groups)) * kListGroup;
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < kListGroup; k += kWidth)
      bits |= Bits(hn::Gt(Magnitude(hn::LoadU(Tag(), block + at + k)), below)) << k;
    count += Append(block + at, bits, first + static_cast<std::uint32_t>(at), list);
  }
  return count;
}

/// The lanes of one block, in registers while groups are added.
class Lanes {
 public:
  HWY_INLINE void Add(std::size_t k, Vector v, IntVector magnitude) {
    const Tag tag;
    const std::size_t c = k % kChains;
    sum_[c] = hn::Add(sum_[c], v);
    l1_[c] = hn::Add(l1_[c], hn::BitCast(tag, magnitude));
    squares_[c] = hn::Add(squares_[c], hn::Mul(v, v));
  }
  /// most: lanewise, of a group's magnitudes
  HWY_INLINE void Largest(IntVector most) { largest_ = hn::Max(largest_, most); }
  /// Hands what was summed to the block at hand, and begins anew.
  HWY_INLINE void Flush(std::size_t entries, plain::MomentBlocks& blocks) {
    const Tag tag;
    const hn::RebindToUnsigned<Tag> words;
    plain::MomentLanes& lanes = blocks.lanes;
    for (std::size_t c = 0; c < kChains; ++c) {
      hn::StoreU(sum_[c], tag, lanes.sum.data() + c * kWidth);
      hn::StoreU(l1_[c], tag, lanes.l1.data() + c * kWidth);
      hn::StoreU(squares_[c], tag, lanes.l2_squared.data() + c * kWidth);
    }
    hn::StoreU(hn::BitCast(words, largest_), words, lanes.largest.data());
    blocks.filled = entries;
    if (entries == plain::kBlock) blocks.close();
    *this = Lanes();
  }

 private:
  static constexpr std::size_t kChains = plain::MomentLanes::kCount / kWidth;
  static HWY_INLINE void Clear(Vector* v) {
    for (std::size_t c = 0; c < kChains; ++c) v[c] = hn::Zero(Tag());
  }

 public:
  HWY_INLINE Lanes() : largest_(hn::Zero(IntTag())) {
    Clear(sum_);
    Clear(l1_);
    Clear(squares_);
  }

 private:
  Vector sum_[kChains], l1_[kChains], squares_[kChains];
  IntVector largest_;
};
#endif

/// blocks: null where kSums is false.
template <class Form, bool kSums>
Emitted EmitFrom(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                 plain::MomentBlocks* blocks) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t kAhead = 2048;
  const Form form(source);
  const IntTag tag;
  const IntVector below = hn::Set(tag, static_cast<std::int32_t>(threshold) - 1);
  const IntVector finite = hn::Set(tag, static_cast<std::int32_t>(kInfinityBits) - 1);
  Lanes lanes;
  bool good = true;
  while (good && i + kListGroup <= source.g.size()) {
    const std::size_t start = i,
                      end = std::min(start + plain::kBlock, source.g.size() / kListGroup * kListGroup);
    std::uint64_t large = 0;  // a bit for each group
    static_assert(plain::kBlock / kListGroup <= 64);
    for (; i < end; i += kListGroup) {
      for (std::size_t line = 0; line < kListGroup; line += 16) form.Prefetch(i + kAhead + line);
      Vector v[kVectors], u[kVectors];
      IntVector most = hn::Zero(tag);
      for (std::size_t k = 0; k < kVectors; ++k) {
        v[k] = form.Load(i + k * kWidth, u[k]);
        most = hn::Max(most, Magnitude(v[k]));
      }
      good = hn::AllFalse(tag, hn::Gt(most, finite));
      if (HWY_UNLIKELY(!good)) break;
      large |= std::uint64_t{!hn::AllFalse(tag, hn::Gt(most, below))} << ((i - start) / kListGroup);
      for (std::size_t k = 0; k < kVectors; ++k) form.Store(i + k * kWidth, v[k], u[k]);
      if constexpr (kSums) {
        for (std::size_t k = 0; k < kVectors; ++k) lanes.Add(k, v[k], Magnitude(v[k]));
        lanes.Largest(most);
      }
    }
    if constexpr (kSums) {
      if (i == start + plain::kBlock) lanes.Flush(plain::kBlock, *blocks);
    }
    count += ListGroups(form.Formed() + start, large, below, first + static_cast<std::uint32_t>(start), list);
  }
  if constexpr (kSums) lanes.Flush(i % plain::kBlock, *blocks);
#endif
  // The rest, or the group that is not finite.
  return plain::emit_reaching_from(source, i, count, threshold, first, list, blocks);
}

template <bool kSums>
Emitted Emit(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
             plain::MomentBlocks* blocks) {
  if (source.velocity != nullptr) return EmitFrom<Accelerated, kSums>(source, threshold, first, list, blocks);
  if (source.sum != nullptr) return EmitFrom<Added, kSums>(source, threshold, first, list, blocks);
  return EmitFrom<Ready, kSums>(source, threshold, first, list, blocks);
}

void EmitReaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                  MomentSums* sums, Emitted* result) {
  if (sums == nullptr) {
    *result = Emit<false>(source, threshold, first, list, nullptr);
    return;
  }
  plain::MomentBlocks blocks;
  *result = Emit<true>(source, threshold, first, list, &blocks);
  *sums = blocks.total();
}

std::size_t EmitEqual(const float* v, std::size_t n, MagnitudeBits magnitude, std::size_t enough,
                      std::uint32_t first, EntryList& list) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  const IntTag tag;
  const IntVector wanted = hn::Set(tag, static_cast<std::int32_t>(magnitude));
  for (; i + kListGroup <= n && count < enough; i += kListGroup) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < kListGroup; k += kWidth)
      bits |= Bits(hn::Eq(Magnitude(hn::LoadU(Tag(), v + i + k)), wanted)) << k;
    if (bits != 0) count += Append(v + i, bits, first + static_cast<std::uint32_t>(i), list);
  }
#endif
  return plain::emit_equal_from({v, n}, i, count, magnitude, enough, first, list);
}

template <class Form>
bool Finite(const Source& source) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Form form(source);
  const IntTag tag;
  IntVector most = hn::Zero(tag);
  for (Vector u; i + kWidth <= source.g.size(); i += kWidth) most = hn::Max(most, Magnitude(form.Load(i, u)));
  if (!hn::AllTrue(tag, hn::Lt(most, hn::Set(tag, static_cast<std::int32_t>(kInfinityBits))))) return false;
#endif
  return plain::all_finite(source.part(i, source.g.size() - i));
}

bool AllFinite(const Source& source) {
  if (source.velocity != nullptr) return Finite<Accelerated>(source);
  return source.sum != nullptr ? Finite<Added>(source) : Finite<Ready>(source);
}

std::size_t CountReaching(const float* v, std::size_t n, MagnitudeBits threshold) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  const IntTag tag;
  const IntVector below = hn::Set(tag, static_cast<std::int32_t>(threshold) - 1);
  for (; i + kWidth <= n; i += kWidth) {
    count += hn::CountTrue(tag, hn::Gt(Magnitude(hn::LoadU(Tag(), v + i)), below));
  }
#endif
  return count + plain::count_reaching({v + i, n - i}, threshold);
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
HWY_EXPORT(AllFinite);
HWY_EXPORT(CountReaching);

}  // namespace

Emitted emit_reaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                      MomentSums* sums) {
  Emitted result;
  HWY_DYNAMIC_DISPATCH(EmitReaching)(source, threshold, first, list, sums, &result);
  return result;
}

std::size_t emit_equal(std::span<const float> v, MagnitudeBits magnitude, std::size_t enough,
                       std::uint32_t first, EntryList& list) {
  return HWY_DYNAMIC_DISPATCH(EmitEqual)(v.data(), v.size(), magnitude, enough, first, list);
}

bool all_finite(const Source& source) { return HWY_DYNAMIC_DISPATCH(AllFinite)(source); }

std::size_t count_reaching(std::span<const float> v, MagnitudeBits threshold) {
  return HWY_DYNAMIC_DISPATCH(CountReaching)(v.data(), v.size(), threshold);
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
