// Compiled once for each instruction set that Highway knows, and chosen when first called. The order of every
// sum is fixed by 16 virtual lanes, however many a register holds, so that all of them give the same bits.
#include "gossamer/compress/kernels.h"

#include <algorithm>
#include <cassert>

#include "kernels_inline.h"
#include "targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels.cpp"
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
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
static_assert(plain::kLanes % kWidth == 0);
constexpr std::size_t kAhead = 1024;  ///< entries from those worked on to those fetched

void Axpy(float a, const float* HWY_RESTRICT x, float* HWY_RESTRICT y, std::size_t n) {
  const Tag tag;
  const Vector factor = hn::Set(tag, a);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    hwy::Prefetch(y + i + kAhead);
    hn::StoreU(hn::Add(hn::LoadU(tag, y + i), hn::Mul(factor, hn::LoadU(tag, x + i))), tag, y + i);
  }
  plain::axpy(a, x + i, y + i, n - i);
}

/// Signs of the 32 entries at x.
HWY_INLINE std::uint32_t SignWord(const float* x) {
#if HWY_TARGET == HWY_SCALAR
  return plain::sign_word(x, 32);
#else
  const Tag tag;
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 32; i += kWidth) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(tag, hn::Ge(hn::LoadU(tag, x + i), hn::Zero(tag)), bytes);
    word |= (bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8) << i;
  }
  return word;
#endif
}

void PackSigns(const float* HWY_RESTRICT x, std::uint32_t* HWY_RESTRICT words, std::size_t n) {
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) words[i / 32] = SignWord(x + i);
  if (i < n) words[i / 32] = plain::sign_word(x + i, n - i);
}

#if HWY_TARGET != HWY_SCALAR
/// Lanes where the bits of word from `first` on are set.
HWY_INLINE hn::Mask<Tag> SignMask(const std::uint32_t* word, std::size_t first) {
  if constexpr (kWidth >= 8)
    return hn::LoadMaskBits(Tag(), reinterpret_cast<const std::uint8_t*>(word) + first / 8);
  const std::uint8_t bits[8] = {static_cast<std::uint8_t>((*word >> first) & 0xfu)};
  return hn::LoadMaskBits(Tag(), bits);
}
#endif

void AddSigns(const std::uint32_t* HWY_RESTRICT words, float magnitude, float* HWY_RESTRICT y,
              std::size_t n) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Tag tag;
  const Vector plus = hn::Set(tag, magnitude), minus = hn::Set(tag, -magnitude);
  for (; i + 32 <= n; i += 32) {
    for (std::size_t j = 0; j < 32; j += kWidth) {
      const Vector step = hn::IfThenElse(SignMask(words + i / 32, j), plus, minus);
      hn::StoreU(hn::Add(hn::LoadU(tag, y + i + j), step), tag, y + i + j);
    }
  }
#endif
  for (; i < n; i += 32) {
    plain::add_sign_word(words[i / 32], magnitude, y + i, std::min<std::size_t>(32, n - i));
  }
}

plain::BlockSums SumBlock(const float* HWY_RESTRICT x, std::size_t n) {
  const Tag tag;
  constexpr std::size_t kVectors = plain::kLanes / kWidth;
  Vector l1[kVectors], l2[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) l1[k] = l2[k] = hn::Zero(tag);
  std::size_t i = 0;
  for (; i + plain::kLanes <= n; i += plain::kLanes) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const Vector v = hn::LoadU(tag, x + i + k * kWidth);
      l1[k] = hn::Add(l1[k], hn::Abs(v));
      l2[k] = hn::Add(l2[k], hn::Mul(v, v));
    }
  }
  plain::BlockSums sums;
  for (std::size_t k = 0; k < kVectors; ++k) {
    hn::StoreU(l1[k], tag, sums.l1.data() + k * kWidth);
    hn::StoreU(l2[k], tag, sums.l2_squared.data() + k * kWidth);
  }
  plain::add_to_lanes(x + i, n - i, sums);
  return sums;
}

void BlockNorms(const float* x, std::size_t n, Norms* result) {
  plain::BlockTree tree;
  for (std::size_t i = 0; i < n; i += plain::kBlock) {
    const plain::BlockSums sums = SumBlock(x + i, std::min(plain::kBlock, n - i));
    tree.add(plain::combine_lanes(sums.l1), plain::combine_lanes(sums.l2_squared));
  }
  *result = {tree.l1(), tree.l2_squared()};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::compress {
namespace {

HWY_EXPORT(Axpy);
HWY_EXPORT(PackSigns);
HWY_EXPORT(AddSigns);
HWY_EXPORT(BlockNorms);

}  // namespace

void axpy(float a, std::span<const float> x, std::span<float> y) {
  assert(x.size() == y.size());
  HWY_DYNAMIC_DISPATCH(Axpy)(a, x.data(), y.data(), x.size());
}

void pack_signs(std::span<const float> x, std::span<std::uint32_t> words) {
  assert(words.size() >= (x.size() + 31) / 32);
  HWY_DYNAMIC_DISPATCH(PackSigns)(x.data(), words.data(), x.size());
}

void add_signs(std::span<const std::uint32_t> words, float magnitude, std::span<float> y) {
  assert(words.size() >= (y.size() + 31) / 32);
  HWY_DYNAMIC_DISPATCH(AddSigns)(words.data(), magnitude, y.data(), y.size());
}

Norms norms(std::span<const float> x) {
  Norms result;
  HWY_DYNAMIC_DISPATCH(BlockNorms)(x.data(), x.size(), &result);
  return result;
}

}  // namespace gossamer::compress
#endif  // HWY_ONCE
