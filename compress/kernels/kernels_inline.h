#pragma once
// The kernels in plain C++: all of them where Highway is absent, the tails and the lane tree where it is
// there.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gossamer::compress::plain {

inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kBlock = 4096;

inline void axpy(float a, const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

/// One word of at most 32 signs.
inline std::uint32_t sign_word(const float* x, std::size_t n) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < n; ++i) word |= (x[i] >= 0 ? 1u : 0u) << i;
  return word;
}

inline void add_sign_word(std::uint32_t word, float magnitude, float* y, std::size_t n) {
  const auto bits = std::bit_cast<std::uint32_t>(-magnitude);
  for (std::size_t i = 0; i < n; ++i) y[i] += std::bit_cast<float>(bits ^ (((word >> i) & 1u) << 31));
}

/// Lane j gets j + 8, then j + 4, + 2, + 1.
inline float combine_lanes(std::array<float, kLanes> lane) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

struct BlockSums {
  std::array<float, kLanes> l1{}, l2_squared{};
};

/// Adds x[0..n) to lanes 0.. ; n ≤ 16 where it is a tail, any multiple of 16 plus a tail otherwise.
inline void add_to_lanes(const float* x, std::size_t n, BlockSums& sums) {
  for (std::size_t i = 0; i < n; ++i) {
    sums.l1[i % kLanes] += std::fabs(x[i]);
    sums.l2_squared[i % kLanes] += x[i] * x[i];
  }
}

/// Pairwise sum of block sums as they come: neighbours first, then pairs of pairs; an odd one out waits.
class BlockTree {
 public:
  void add(float l1, float l2_squared) {
    std::size_t level = count_++;
    // Like carrying in binary: block k completes as many pairs as k has trailing ones.
    for (; (level & 1u) != 0; level >>= 1) {
      --depth_;
      l1 = l1_[depth_] + l1;
      l2_squared = l2_squared_[depth_] + l2_squared;
    }
    l1_[depth_] = l1;
    l2_squared_[depth_++] = l2_squared;
  }
  float l1() const { return total(l1_); }
  float l2_squared() const { return total(l2_squared_); }

 private:
  using Levels = std::array<float, 64>;
  float total(const Levels& levels) const {
    if (depth_ == 0) return 0;
    float sum = levels[depth_ - 1];
    for (std::size_t i = depth_ - 1; i-- > 0;) sum = levels[i] + sum;
    return sum;
  }
  Levels l1_, l2_squared_;
  std::size_t depth_ = 0, count_ = 0;
};

}  // namespace gossamer::compress::plain
