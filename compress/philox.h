#pragma once
// Counter-based random bits: Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3").
#include <array>
#include <cstddef>
#include <cstdint>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// 16 random bits for each entry of a vector; those of entry i depend on (key, i) alone. Key words: the seed,
/// with the round's high half mixed in; counter words: block index, peer, layer, the round's low half. One
/// block gives the bits of eight entries: entry 512·g + j takes half-word j/64 of block 64·g + j%64, so that
/// 64 blocks side by side yield runs of 64 neighbours. Vectors up to 2³⁵ entries.
class EntryBits {
 public:
  static constexpr std::size_t kGroup = 512;
  using Group = std::array<std::uint16_t, kGroup>;

  explicit EntryBits(const RandomKey& key)
      : key_{low(key.seed) + low(key.round >> 32) * 0x85ebca6bu,
             high(key.seed) ^ (low(key.round >> 32) * 0xc2b2ae35u)},
        counter_{key.peer, key.layer, low(key.round)} {}

  /// Bits of entries 512·g … 512·g + 511.
  void group(std::size_t g, Group& out) const {
    constexpr std::size_t kBlocks = kGroup / 8;
    std::array<std::uint32_t, kBlocks> c0, c1, c2, c3;
    for (std::size_t b = 0; b < kBlocks; ++b) {
      c0[b] = static_cast<std::uint32_t>(g * kBlocks + b);
      c1[b] = counter_[0];
      c2[b] = counter_[1];
      c3[b] = counter_[2];
    }
    std::uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 7; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const std::uint64_t p0 = std::uint64_t{0xd2511f53u} * c0[b];
        const std::uint64_t p1 = std::uint64_t{0xcd9e8d57u} * c2[b];
        c0[b] = high(p1) ^ c1[b] ^ k0;
        c2[b] = high(p0) ^ c3[b] ^ k1;
        c1[b] = low(p1);
        c3[b] = low(p0);
      }
    }
    const std::array<const std::uint32_t*, 4> words = {c0.data(), c1.data(), c2.data(), c3.data()};
    for (std::size_t w = 0; w < words.size(); ++w) {
      std::uint16_t* to = out.data() + 2 * w * kBlocks;
      for (std::size_t b = 0; b < kBlocks; ++b) to[b] = static_cast<std::uint16_t>(words[w][b]);
      for (std::size_t b = 0; b < kBlocks; ++b)
        to[kBlocks + b] = static_cast<std::uint16_t>(words[w][b] >> 16);
    }
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static constexpr std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 3> counter_;
};

}  // namespace gossamer::compress
