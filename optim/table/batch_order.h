#pragma once
// BatchOrder brings the keys of one call into the order of the table's shards.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gossamer::optim {

struct MixedKey {
  std::uint64_t mixed;
  std::uint32_t index;  ///< in the call
};

/// The places in a call of each shard's keys, in rising order.
struct ShardSplit {
  std::span<std::uint32_t> of(std::size_t shard) const {
    const std::uint32_t first = shard == 0 ? 0 : ends[shard - 1];
    return {places + first, ends[shard] - first};
  }
  std::uint32_t* places;
  std::array<std::uint32_t, 64> ends;
};

/// Scratch memory of one call at a time, used again by the next.
class BatchOrder {
 public:
  /// By mix(key ^ salt) and then the index: equal keys stand together in the order of the call. Holds until
  /// the next call. bits: so many of the high ones are surely worth a counting sort.
  std::span<const MixedKey> sort(std::span<const std::uint64_t> keys, std::uint64_t salt, unsigned bits);
  /// Of mixed keys, by their `bits` high bits, at most 6. Holds until the next call.
  ShardSplit split(std::span<const std::uint64_t> mixed, unsigned bits);
  /// Room for what the call needs beside; undefined content.
  std::span<float> floats(std::size_t n);
  std::span<std::uint32_t> indices(std::size_t n);

 private:
  std::vector<std::uint32_t> ends_, places_;
  std::vector<MixedKey> sorted_;
  std::vector<float> floats_;
};

}  // namespace gossamer::optim
