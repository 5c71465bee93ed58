#pragma once
// Fields of 2 to 8 bits, packed lowest bits first, a group of 512 at a time.
#include <array>
#include <cstddef>
#include <cstdint>

#include "philox.h"

namespace gossamer::compress {

/// One field per byte; a group has as many entries as EntryBits draws at once.
using Fields = std::array<std::uint8_t, EntryBits::kGroup>;

/// Writes ceil(count·bits/8) bytes; fields past count are overwritten with zeros.
void pack_fields(std::size_t bits, Fields& fields, std::size_t count, std::byte* out);
/// Reads ceil(count·bits/8) bytes; the fields past count hold what the last byte has in them.
void unpack_fields(std::size_t bits, const std::byte* in, std::size_t count, Fields& fields);

}  // namespace gossamer::compress
