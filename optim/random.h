#pragma once
// Counter-based random numbers: a value is a pure function of (key, index), so that it is the same on every
// host, in any order, from any thread. The mixing function is splitmix64's (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, OOPSLA 2014, section 5).
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "elementary.h"

namespace gossamer::optim {

inline std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// x where mix(x) = z.
inline std::uint64_t unmix(std::uint64_t z) {
  z = (z ^ (z >> 31) ^ (z >> 62)) * 0x319642B2D24D8EC3ULL;
  z = (z ^ (z >> 27) ^ (z >> 54)) * 0x96DE1B173F119089ULL;
  return z ^ (z >> 30) ^ (z >> 60);
}

/// Keys of the uses of one seed, so that no two uses share numbers.
enum class Use : std::uint64_t {
  parameters = 1,
  centres,
  noise,
  shards,
  epoch,
  draw,
  proportions,
  classes,
  rows,
  table_places,
  table_weights,
  embeddings,
  stream,
  peers,
  planted,
  holders
};

inline std::uint64_t bits(std::uint64_t key, std::uint64_t index) {
  return mix(key + (index + 1) * 0x9E3779B97F4A7C15ULL);
}

inline std::uint64_t make_key(std::uint64_t seed, Use use, std::uint64_t a = 0, std::uint64_t b = 0) {
  return bits(bits(bits(mix(seed), static_cast<std::uint64_t>(use)), a), b);
}

/// Uniform in (0, 1): never 0, never 1.
inline double uniform(std::uint64_t key, std::uint64_t index) {
  return (static_cast<double>(bits(key, index) >> 12) + 0.5) * 0x1p-52;
}

/// Uniform in [0, n), n < 2^32; bias < n/2^32.
inline std::uint32_t below(std::uint64_t key, std::uint64_t index, std::uint64_t n) {
  return static_cast<std::uint32_t>(((bits(key, index) >> 32) * n) >> 32);
}

/// Standard normal by Marsaglia's polar method (Marsaglia, Bray: A Convenient Method for Generating Normal
/// Variables, SIAM Review 1964), which needs only ln and sqrt; rejected points go on to the next attempt's
/// counter.
inline double normal(std::uint64_t key, std::uint64_t index) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::uint64_t b = bits(bits(key, index), attempt);
    const double u = (static_cast<double>(b >> 32) + 0.5) * 0x1p-31 - 1;
    const double v = (static_cast<double>(b & 0xFFFF'FFFFU) + 0.5) * 0x1p-31 - 1;
    const double s = u * u + v * v;
    if (s < 1) return u * std::sqrt(-2 * portable_log(s) / s);
  }
}

/// Fisher–Yates (Knuth, TAOCP 2, algorithm 3.4.2P).
inline void shuffle(std::span<std::uint32_t> values, std::uint64_t key) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(key, i, i)]);
}

/// values ← a random permutation of 0 … size−1.
inline void permutation(std::span<std::uint32_t> values, std::uint64_t key) {
  std::iota(values.begin(), values.end(), 0U);
  shuffle(values, key);
}

}  // namespace gossamer::optim
