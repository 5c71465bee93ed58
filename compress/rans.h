#pragma once
// Asymmetric numeral systems (Duda 2013, "Asymmetric numeral systems: entropy coding combining speed of
// Huffman coding with compression rate of arithmetic coding"), the range variant: within a small part of a
// percent of the fields' entropy. One static model of order 0 for each string, its frequencies in 4096ths;
// four states of 32 bits take turns, so that their work overlaps, and send 16 bits at a time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "prefix_code.h"

namespace gossamer::compress {

inline constexpr unsigned kRansBits = 12;
inline constexpr std::size_t kRansStates = 4;

/// Frequencies of the fields 0 … top in 4096ths: at least 1 for each that occurs, 0 for the others.
struct RansModel {
  std::array<std::uint16_t, 256> frequency{};
};
/// counts are not all 0.
RansModel rans_model(const FieldCounts& counts, LevelRange range);

/// Bytes under which write_rans never stays: the fields' bits in this model without the states, and the
/// model.
std::uint64_t rans_bytes_least(const RansModel& model, const FieldCounts& counts, LevelRange range);
std::size_t rans_bytes_most(std::size_t fields, LevelRange range);

/// Bytes that write_rans needs beyond those it keeps.
inline constexpr std::size_t kRansRoom = 8;
/// Omega of frequency + 1 for every field, padded to a byte; four states; words of 16 bits. Returns the bytes
/// written to the front of out, or 0 where they do not fit.
std::size_t write_rans(std::span<const std::uint8_t> fields, LevelRange range, const RansModel& model,
                       std::span<std::byte> out);
/// Reads all fields; throws PayloadError unless the bytes are exactly a model and their string.
void read_rans(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields);

}  // namespace gossamer::compress
