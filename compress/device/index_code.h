#pragma once
// Ascending indices of a sparse payload on the device, in the forms of index_coding.h. Where each code stands
// is found by prefix sums of the codes' lengths.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "call.h"
#include "index_coding.h"
#include "selection.h"
#include "values.h"

namespace gossamer::compress::cuda {

/// What the payloads of one codec have in common.
struct SparseForm {
  unsigned coding;  ///< an IndexForm; kIndexForms: whichever is smallest
  ValueForm values;
  bool writes_count;  ///< a varint behind the front that is known beforehand
  bool may_be_empty;  ///< then nothing stands behind a count of 0

  bool may_be(IndexForm form) const { return coding == kIndexForms || coding == static_cast<unsigned>(form); }
  IndexCoding index_coding() const {
    return coding == kIndexForms ? IndexCoding() : IndexCoding(static_cast<IndexForm>(coding));
  }
};
inline unsigned coding_number(IndexCoding coding) {
  return coding ? static_cast<unsigned>(*coding) : static_cast<unsigned>(kIndexForms);
}

/// Where the parts of a payload lie.
struct SparsePlan {
  unsigned long long count;
  unsigned long long indices_at;   ///< of the bits, behind the form's parameter
  unsigned long long index_bytes;  ///< of the bits
  unsigned long long values_at;
  unsigned long long units;    ///< decoding: see index_decode.cu
  unsigned long long scanned;  ///< decoding: count + 1, or 0
  IndexForm form;
  unsigned parameter;  ///< r or w
};

/// What all gaps together would take.
struct GapCounts {
  unsigned long long with_bit[32];  ///< how many have bit b set
  unsigned long long elias_bits;
  unsigned long long more_runs;  ///< words of a run that goes on
};

/// Memory for the coding of at most `most` of n indices.
struct EncodingRoom {
  std::size_t n, most;
  SparsePlan* plan;
  GapCounts* gaps;
  ValueScale* scale;
  unsigned long long *sums, *tiles;
  std::uint32_t* words;  ///< the code
  std::size_t word_count;
};
EncodingRoom take_encoding_room(Arena& arena, const SparseForm& form, std::size_t n, std::size_t most);

/// Writes the payload of these entries behind its front of `front` bytes, and its size into the result.
void write_sparse(const Input& input, const Chosen& chosen, std::size_t front, const SparseForm& form,
                  const EncodingRoom& room, const EncodeCall& call);

/// In a string of codes: how many end in a part of it, and what they add to the indices.
struct CodeSum {
  unsigned long long ends, sum;
  constexpr CodeSum& operator+=(const CodeSum& other) {
    ends += other.ends;
    sum += other.sum;
    return *this;
  }
};

/// Where the codes of one part of a string of codes go on, by where in its first 64 bits they begin.
struct EliasJump {
  std::uint16_t next;   ///< bit of the next part
  std::uint16_t codes;  ///< that begin in this one
};
struct EliasEntry {
  unsigned long long bit, index;  ///< of the first code that begins in a part
};

/// Memory for the decoding.
struct DecodingRoom {
  std::size_t n, most;
  std::size_t most_units, most_parts;
  SparsePlan* plan;
  unsigned long long *starts, *sums, *tiles;
  CodeSum *units, *unit_tiles;
  EliasJump* jumps;  ///< 64 for each part
  EliasEntry* entries;
};
DecodingRoom take_decoding_room(Arena& arena, const SparseForm& form, std::size_t n, std::size_t most);

/// acc[index] += weight · value for a payload whose front was checked. count: where the front does not say.
void add_sparse(const DecodeCall& call, std::size_t front, const SparseForm& form, std::size_t count,
                const DecodingRoom& room);

}  // namespace gossamer::compress::cuda
