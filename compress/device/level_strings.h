#pragma once
// Levels as slices of prefix codes or of asymmetric numeral systems on the device (level_coding.h): a warp
// for each slice, a thread for each of its strings.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "call.h"
#include "level_coding.h"
#include "slice_plan.h"

namespace gossamer::compress::cuda {

/// How one slice is written: the plan of its strings, or rans of so many bytes behind the form's.
struct SlicePlan {
  StringsPlan strings;
  std::uint32_t rans_bytes;  ///< 0: in strings
};

/// Bytes of the slices' lengths, of slices ≥ 1.
constexpr std::size_t slice_lengths(std::size_t slices) { return (slices - 1) * sizeof(std::uint32_t); }

/// Memory for the levels of n entries.
struct LevelRoom {
  std::size_t n, slices;
  std::uint8_t* fields;  ///< one for each entry, and room up to a multiple of 512
  unsigned long long *starts, *tiles;
  SliceCounts* counts;  ///< encoding only, as what follows
  SlicePlan* plans;
  std::byte* rans;  ///< of each slice, at the end of rans_room
  std::size_t rans_room;
};
LevelRoom take_encoding_levels(Arena& arena, FieldCoding coding, LevelRange range, std::size_t n);
LevelRoom take_decoding_levels(Arena& arena, std::size_t n);

/// Codes room.fields behind the payload's first `front` bytes, and writes its size into the result.
void write_levels(const LevelRoom& room, FieldCoding coding, LevelRange range, std::size_t front,
                  const EncodeCall& call);
/// Fills room.fields from what stands behind the payload's first `front` bytes; refuses what no encoder
/// wrote.
void read_levels(const DecodeCall& call, std::size_t front, LevelRange range, const LevelRoom& room);

}  // namespace gossamer::compress::cuda
