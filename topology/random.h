#pragma once
// Random numbers that are the same on every platform and standard library.
#include <cstdint>
#include <span>
#include <utility>

namespace gossamer::topology {

/// SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators").
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in 0 … n−1, n ≥ 1, without bias.
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t incomplete = (0 - n) % n;  // 2⁶⁴ mod n: that many values are drawn again
    std::uint64_t x = next();
    while (x < incomplete) x = next();
    return x % n;
  }

  /// Uniform in [−1, 1).
  double symmetric() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0; }

 private:
  std::uint64_t state_;
};

/// Fisher–Yates.
template <class T>
void shuffle(std::span<T> items, SplitMix64& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

}  // namespace gossamer::topology
