#pragma once
// Asymmetric numeral systems (Duda 2013, "Asymmetric numeral systems: entropy coding combining speed of
// Huffman coding with compression rate of arithmetic coding"), the range variant: within a small part of a
// percent of the fields' entropy. One static model of order 0 for each string, its frequencies in 4096ths;
// four states of 32 bits take turns, so that their work overlaps, and send 16 bits at a time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rans_model.h"

namespace gossamer::compress {

/// Bytes that write_rans needs beyond those it keeps.
inline constexpr std::size_t kRansRoom = 8;
/// Omega of frequency + 1 for every field, padded to a byte; four states; words of 16 bits. Returns the bytes
/// written to the front of out, or 0 where they do not fit.
std::size_t write_rans(std::span<const std::uint8_t> fields, LevelRange range, const RansModel& model,
                       std::span<std::byte> out);
/// Reads all fields; throws PayloadError unless the bytes are exactly a model and their string.
void read_rans(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields);

}  // namespace gossamer::compress
