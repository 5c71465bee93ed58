#pragma once
// Ascending indices in Rice code on the device: the low r bits of every gap, then for every gap gap >> r
// zeros and a one. All of it is found in parallel by prefix sums.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "gossamer/compress/device.h"

namespace gossamer::compress::cuda {

/// Where the parts of a sparse payload with Rice-coded indices and fp32 values lie.
struct SparsePlan {
  unsigned long long count;
  unsigned long long indices_at;   ///< of the bits, behind r
  unsigned long long index_bytes;  ///< of the bits
  unsigned long long values_at;
  unsigned rice;
};

/// Memory for the coding of at most `most` of n indices.
struct IndexRoom {
  SparsePlan* plan;
  unsigned long long* bit_counts;  ///< 32: how many gaps have bit b set
  unsigned long long *sums, *tiles;
  unsigned long long *highs, *high_tiles;  ///< decoding: of each word of quotients, then of each index
  unsigned long long* positions;
  std::uint32_t* words;
  std::size_t word_count;  ///< of `words`
};
/// Bytes of Rice code, r included, that any `most` or fewer of n indices need at most.
std::size_t rice_max_bytes(std::size_t most, std::size_t n);
IndexRoom take_index_room(Arena& arena, std::size_t n, std::size_t most, bool decoding);

/// How the count of indices stands in front of them: known from the spec, as topk's, or written and read
/// here.
struct SparseFront {
  std::size_t size;   ///< of the front that is known beforehand
  bool writes_count;  ///< varint count and, where it is not 0, the form's byte follow
};

/// Writes the payload behind its front, and its size into the result. values are those of the indices.
void write_sparse(const std::uint32_t* indices_dev, const float* values_dev,
                  const unsigned long long* count_dev, std::size_t most, std::size_t n, SparseFront front,
                  const IndexRoom& room, const EncodeCall& call);
/// acc[index] += weight · value of a payload whose front was checked; count is the spec's where it is known.
void add_sparse(const std::byte* payload_dev, std::size_t bytes, float weight, float* acc_dev, std::size_t n,
                SparseFront front, std::size_t count, std::size_t most, const IndexRoom& room,
                DeviceResult* result_dev, void* stream);

}  // namespace gossamer::compress::cuda
