#pragma once
// Counter-based random bits: Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3").
#include <array>
#include <cstddef>
#include <cstdint>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// What the bits come from.
enum class Random { philox, hash };

/// 16 random bits for each entry of a vector; those of entry i depend on (key, i) alone. Key words: the seed,
/// with the round's high half mixed in; counter words: block index, peer, layer, the round's low half. One
/// block gives the bits of eight entries: entry 512·g + j takes half-word j/64 of block 64·g + j%64, so that
/// 64 blocks side by side yield runs of 64 neighbours. Vectors up to 2³⁵ entries.
///
/// Random::hash, a third of the work: word 256·g + w, which lies as the four rows of 64 words of group g do,
/// is a mix of its own number by two multiplications (constants: Wellons' search of such mixes for low bias),
/// with one key word added before and one in the middle. The key words are Philox of the same key, so that
/// keys have nothing in common; new ones every 2³² words.
class EntryBits {
 public:
  static constexpr std::size_t kGroup = 512;
  static constexpr std::size_t kBlocks = kGroup / 8;
  using Group = std::array<std::uint16_t, kGroup>;

  explicit EntryBits(const RandomKey& key, Random source = Random::philox)
      : source_(source),
        key_{low(key.seed) + low(key.round >> 32) * 0x85ebca6bu,
             high(key.seed) ^ (low(key.round >> 32) * 0xc2b2ae35u)},
        counter_{key.peer, key.layer, low(key.round)} {
    if (source == Random::hash) hash_key_ = new_hash_key(0);
  }

  /// Bits of entries 512·g … 512·g + 511.
  void group(std::size_t g, Group& out) const {
    std::uint32_t words[kGroup / 2];
    this->words(g, words);
    for (std::size_t j = 0; j < kGroup; ++j) {
      const std::uint32_t word = words[j / (2 * kBlocks) * kBlocks + j % kBlocks];
      out[j] = static_cast<std::uint16_t>(j / kBlocks % 2 == 0 ? word : word >> 16);
    }
  }

  /// The same as four rows of 64: word w of block 64·g + b is out[64·w + b].
  void words(std::size_t g, std::uint32_t* out) const {
    if (source_ == Random::hash) return hash_words(g, out);
    std::uint32_t *c0 = out, *c1 = out + kBlocks, *c2 = out + 2 * kBlocks, *c3 = out + 3 * kBlocks;
    for (std::size_t b = 0; b < kBlocks; ++b) {
      c0[b] = static_cast<std::uint32_t>(g * kBlocks + b);
      c1[b] = counter_[0];
      c2[b] = counter_[1];
      c3[b] = counter_[2];
    }
    std::uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < kRounds; ++round, k0 += kWeyl0, k1 += kWeyl1) {
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const std::uint64_t p0 = kMultiplier0 * c0[b];
        const std::uint64_t p1 = kMultiplier1 * c2[b];
        c0[b] = high(p1) ^ c1[b] ^ k0;
        c2[b] = high(p0) ^ c3[b] ^ k1;
        c1[b] = low(p1);
        c3[b] = low(p0);
      }
    }
  }

  static constexpr int kRounds = 7;
  static constexpr std::uint64_t kMultiplier0 = 0xd2511f53u, kMultiplier1 = 0xcd9e8d57u;
  static constexpr std::uint32_t kWeyl0 = 0x9e3779b9u, kWeyl1 = 0xbb67ae85u;
  static constexpr std::uint32_t kHash0 = 0x21f0aaadu, kHash1 = 0x735a2d97u;
  Random source() const { return source_; }
  std::array<std::uint32_t, 2> hash_key(std::size_t g) const {
    return g >> 24 == 0 ? hash_key_ : new_hash_key(static_cast<std::uint32_t>(g >> 24));
  }
  const std::array<std::uint32_t, 2>& key() const { return key_; }
  const std::array<std::uint32_t, 3>& counter() const { return counter_; }

 private:
  void hash_words(std::size_t g, std::uint32_t* out) const {
    const auto key = hash_key(g);
    for (std::size_t w = 0; w < kGroup / 2; ++w) {
      std::uint32_t x = static_cast<std::uint32_t>(g * (kGroup / 2) + w) + key[0];
      x = (x ^ x >> 16) * kHash0;
      x = (x ^ x >> 15 ^ key[1]) * kHash1;
      out[w] = x ^ x >> 15;
    }
  }
  /// Philox of a key of its own, with the high part of the words' numbers for a counter.
  std::array<std::uint32_t, 2> new_hash_key(std::uint32_t high_part) const {
    constexpr std::uint32_t kOwn = 0x68617368u;
    std::array<std::uint32_t, 4> c = {high_part, counter_[0], counter_[1], counter_[2]};
    std::uint32_t k0 = key_[0] ^ kOwn, k1 = key_[1];
    for (int round = 0; round < kRounds; ++round, k0 += kWeyl0, k1 += kWeyl1) {
      const std::uint64_t p0 = kMultiplier0 * c[0], p1 = kMultiplier1 * c[2];
      c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    }
    return {c[0], c[1]};
  }
  static constexpr std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static constexpr std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  Random source_;
  std::array<std::uint32_t, 2> hash_key_{};
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 3> counter_;
};

}  // namespace gossamer::compress
