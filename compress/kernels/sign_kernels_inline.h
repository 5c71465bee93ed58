#pragma once
// The sign kernels in plain C++: all of them where Highway is absent, the tails where it is there.
#include <algorithm>
#include <cstring>

#include "kernels_inline.h"
#include "sign_kernels.h"

namespace gossamer::compress::plain {

/// e, of an entry that has sent what its sign stands for.
inline float left_of(float p, SignPair sent) { return p - (p >= 0 ? sent.plus : sent.minus); }

/// p ← v = g + p, but for the entries where that is NaN or Inf; returns the first of them, or n.
inline std::size_t take_in(const float* g, float* p, std::size_t n) {
  std::size_t bad = n;
  for (std::size_t i = 0; i < n; ++i) {
    const float v = g[i] + p[i];
    if (std::isfinite(v)) {
      p[i] = v;
    } else {
      bad = std::min(bad, i);
    }
  }
  return bad;
}

/// What is summed of a block, in lanes.
struct SignSums : BlockSums {
  std::uint32_t positive = 0;
  BucketSums combine() const { return {combine_lanes(l1), combine_lanes(l2_squared), positive}; }
};

template <Sums kKind>
void add_entry(float v, std::size_t lane, SignSums& sums) {
  if constexpr (kKind == Sums::sides) {
    sums.l1[lane] += v >= 0 ? v : 0.0f;
    sums.l2_squared[lane] += v >= 0 ? 0.0f : v;
  } else {
    sums.l1[lane] += std::fabs(v);
    if constexpr (kKind == Sums::norms) sums.l2_squared[lane] += v * v;
  }
}

/// At most 32 entries, the first of which belongs to lane 0; p is null where v = g. Returns the first entry
/// that is not finite where p is given, else n.
template <Sums kKind>
std::size_t scan_word(const float* g, float* p, SignPair pending, std::size_t n, SignSums& sums,
                      std::byte* signs) {
  std::size_t bad = n;
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float v = g[i];
    if (p != nullptr) {
      const float e = left_of(p[i], pending);
      v += e;
      p[i] = std::isfinite(v) ? v : e;
      if (!std::isfinite(v)) bad = std::min(bad, i);
    }
    add_entry<kKind>(v, i % kLanes, sums);
    word |= (v >= 0 ? 1u : 0u) << i;
  }
  if constexpr (kKind == Sums::sides) sums.positive += static_cast<std::uint32_t>(std::popcount(word));
  std::memcpy(signs, &word, (n + 7) / 8);
  return bad;
}

/// n entries of one leaf.
inline void add_leaf_tail(const std::byte* signs, SignPair pair, float* acc, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    acc[i] += ((static_cast<unsigned>(signs[i / 8]) >> (i % 8)) & 1u) != 0 ? pair.plus : pair.minus;
  }
}

}  // namespace gossamer::compress::plain
