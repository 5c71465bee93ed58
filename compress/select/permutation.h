#pragma once
// The indices of randk, drawn alike on the CPU and on CUDA devices.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "philox.h"

namespace gossamer::compress {

/// A keyed permutation of 0 … n−1 that takes no memory: an eight-round Feistel network on pairs (left < a,
/// right < b), a·b ≥ n, walked on until it lands below n (Black & Rogaway 2002, "Ciphers with arbitrary
/// finite domains", sections 4 and 5). Its first k values are k distinct indices. n < 2³².
class Permutation {
 public:
  static constexpr std::size_t kKeys = 16;

  /// n > 0. draws are those of entries 0 … 31 under the seed.
  constexpr Permutation(std::uint32_t n, std::uint32_t root, const std::uint16_t* draws)
      : n_(n), a_(root), b_((n - 1) / root + 1) {
    for (std::size_t r = 0; r < kKeys; ++r)
      keys_[r] = draws[2 * r] | static_cast<std::uint32_t>(draws[2 * r + 1]) << 16;
  }
  static Permutation of(std::uint64_t seed, std::uint32_t n) {
    EntryBits::Group draws;
    EntryBits({.seed = seed}).group(0, draws);
    return Permutation(n, root_of(n), draws.data());
  }
  /// ⌈√n⌉.
  static std::uint32_t root_of(std::uint32_t n) {
    auto root = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(n)));
    while (std::uint64_t{root} * root < n) ++root;
    return root;
  }

  constexpr std::uint32_t operator()(std::uint32_t j) const {
    std::uint64_t at = j;
    do at = step(at);
    while (at >= n_);
    return static_cast<std::uint32_t>(at);
  }

 private:
  static constexpr std::size_t kRounds = kKeys / 2;

  /// Even rounds move the left half by a hash of the right, odd ones the right by a hash of the left.
  constexpr std::uint64_t step(std::uint64_t at) const {
    auto left = static_cast<std::uint32_t>(at / b_), right = static_cast<std::uint32_t>(at % b_);
    for (std::size_t r = 0; r < kRounds; r += 2) {
      left = shifted(left, hash(right, r), a_);
      right = shifted(right, hash(left, r + 1), b_);
    }
    return std::uint64_t{left} * b_ + right;
  }
  static constexpr std::uint32_t shifted(std::uint32_t half, std::uint32_t random, std::uint32_t size) {
    const std::uint64_t sum = half + ((std::uint64_t{random} * size) >> 32);
    return static_cast<std::uint32_t>(sum >= size ? sum - size : sum);
  }
  /// Two keys and the finaliser of MurmurHash3 between them.
  constexpr std::uint32_t hash(std::uint32_t half, std::size_t round) const {
    std::uint32_t h = half * 0x9e3779b1u + keys_[2 * round];
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h = (h ^ (h >> 16)) + keys_[2 * round + 1];
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    return h ^ (h >> 16);
  }

  std::uint32_t n_, a_, b_;
  std::array<std::uint32_t, kKeys> keys_{};
};

}  // namespace gossamer::compress
