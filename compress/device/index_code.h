#pragma once
// Ascending indices in Rice code on the device: the low r bits of every gap, then for every gap gap >> r
// zeros and a one. All of it is found in parallel by prefix sums.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "call.h"
#include "selection.h"

namespace gossamer::compress::cuda {

/// Where the parts of a sparse payload with Rice-coded indices and fp32 values lie.
struct SparsePlan {
  unsigned long long count;
  unsigned long long indices_at;   ///< of the bits, behind r
  unsigned long long index_bytes;  ///< of the bits
  unsigned long long values_at;
  unsigned long long quotient_words;  ///< decoding: 32 bits each, from the first quotient's on
  unsigned rice;
};

/// Memory for the coding, or the decoding, of at most `most` of n indices.
struct IndexRoom {
  std::size_t n, most;
  SparsePlan* plan;
  unsigned long long* bit_counts;  ///< 32: how many gaps have bit b set
  unsigned long long *sums, *tiles;
  unsigned long long *ones, *ones_tiles;  ///< of each word of quotients
  unsigned long long* highs;              ///< of each index, the sum of the quotients up to its own
  std::uint32_t* words;                   ///< the code
};
IndexRoom take_encoding_room(Arena& arena, std::size_t n, std::size_t most);
IndexRoom take_decoding_room(Arena& arena, std::size_t n, std::size_t most);

/// How the count of indices stands in front of them: known from the spec, as topk's, or written and read
/// here.
struct SparseFront {
  std::size_t size;   ///< of the front that is known beforehand
  bool writes_count;  ///< varint count and, where it is not 0, the form's byte follow
};

/// Writes the payload of these entries behind its front, and its size into the result.
void write_sparse(const Chosen& chosen, SparseFront front, const IndexRoom& room, const EncodeCall& call);
/// acc[index] += weight · value for a payload whose front was checked. count: where the front does not say.
void add_sparse(const DecodeCall& call, SparseFront front, std::size_t count, const IndexRoom& room);

}  // namespace gossamer::compress::cuda
