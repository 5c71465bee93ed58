#pragma once
// BatchOrder brings the keys of one call into the order of the table's shards.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gossamer::optim {

struct MixedKey {
  std::uint64_t mixed;
  std::uint32_t index;  ///< in the call
};

/// Scratch memory of one call at a time, used again by the next.
class BatchOrder {
 public:
  /// By mix(key ^ salt) and then the index: equal keys stand together in the order of the call. Holds until
  /// the next call. bits: so many of the high ones are surely worth a counting sort.
  std::span<const MixedKey> sort(std::span<const std::uint64_t> keys, std::uint64_t salt, unsigned bits);
  /// Room for what the call needs beside; undefined content.
  std::span<float> floats(std::size_t n);

 private:
  std::vector<std::uint32_t> ends_;
  std::vector<MixedKey> sorted_;
  std::vector<float> floats_;
};

}  // namespace gossamer::optim
