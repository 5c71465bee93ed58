#pragma once
// Sightings estimates how often a key was seen, in bounded memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "random.h"

namespace gossamer::optim {

/// A counting Bloom filter of 4-bit counters with conservative update (Estan, Varghese: New Directions in
/// Traffic Measurement and Accounting, 2002): a key has four counters in one cache line, its estimate is the
/// least of them and only such rise; never too low, but for what is forgotten: all counters are halved
/// whenever there have been a quarter as many sightings as there are counters (Einziger, Friedman, Manes:
/// TinyLFU, 2017). One thread at a time.
class Sightings {
 public:
  static constexpr unsigned kMost = 15;  ///< where a counter stops
  static constexpr std::size_t kLine = 64;
  /// memory: zeros, a multiple of kLine; may be empty.
  explicit Sightings(std::span<std::uint8_t> memory) : memory_(memory) {}

  /// The estimate after `times` more sightings of a number; kMost where there is no memory.
  unsigned see(std::uint64_t number, std::size_t times) {
    if (memory_.empty()) return kMost;
    std::uint64_t hash = bits(number, 0);
    std::uint8_t* const line = &memory_[((hash >> 32) * (memory_.size() / kLine) >> 32) * kLine];
    unsigned least = kMost;
    for (unsigned i = 0; i < 4; ++i) least = std::min(least, at(line, hash, i));
    const auto risen = static_cast<unsigned>(std::min<std::size_t>(kMost, least + times));
    for (unsigned i = 0; i < 4; ++i)
      if (at(line, hash, i) < risen) put(line, hash, i, risen);
    age(times);
    return risen;
  }

 private:
  static unsigned place(std::uint64_t hash, unsigned i) { return hash >> (7 * i) & 127; }
  static unsigned at(const std::uint8_t* line, std::uint64_t hash, unsigned i) {
    const unsigned n = place(hash, i);
    return line[n / 2] >> (n % 2 * 4) & 15U;
  }
  static void put(std::uint8_t* line, std::uint64_t hash, unsigned i, unsigned value) {
    const unsigned n = place(hash, i), shift = n % 2 * 4;
    line[n / 2] = static_cast<std::uint8_t>((line[n / 2] & ~(15U << shift)) | value << shift);
  }
  void age(std::size_t times) {
    seen_ += times;
    if (seen_ < memory_.size() / 2) return;  // two counters per byte
    seen_ = 0;
    for (std::uint8_t& pair : memory_) pair = pair >> 1 & 0x77;
  }

  std::span<std::uint8_t> memory_;
  std::size_t seen_ = 0;
};

}  // namespace gossamer::optim
