#pragma once
// EntryBits of philox.h, one block of eight entries at a time.
#include "device.cuh"
#include "philox.h"

namespace gossamer::compress::cuda {

/// The four words of block `block`: draws of entries 64h + j of group g, block = 64·g + j, lie in word h/2,
/// in its low half for even h.
struct Philox {
  std::uint32_t words[4];

  __device__ Philox(const RandomKey& key, std::uint32_t block) {
    const auto high_round = static_cast<std::uint32_t>(key.round >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(key.seed) + high_round * 0x85ebca6bu;
    std::uint32_t k1 = static_cast<std::uint32_t>(key.seed >> 32) ^ (high_round * 0xc2b2ae35u);
    std::uint32_t c0 = block, c1 = key.peer, c2 = key.layer, c3 = static_cast<std::uint32_t>(key.round);
#pragma unroll
    for (int round = 0; round < EntryBits::kRounds; ++round) {
      const std::uint64_t p0 = EntryBits::kMultiplier0 * c0, p1 = EntryBits::kMultiplier1 * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += EntryBits::kWeyl0;
      k1 += EntryBits::kWeyl1;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }
  /// Draw of entry 64h + j; bits above 16 are another's.
  __device__ std::uint32_t draw(unsigned h) const { return h % 2 == 0 ? words[h / 2] : words[h / 2] >> 16; }
};

}  // namespace gossamer::compress::cuda
