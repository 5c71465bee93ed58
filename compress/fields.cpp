#include "fields.h"

#include <algorithm>
#include <cstring>

#include "wire.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;

}  // namespace

void pack_fields(std::size_t bits, Fields& fields, std::size_t count, std::byte* out) {
  const std::size_t per_byte = 8 / bits;
  const std::size_t bytes = wire::ceil_div(count, per_byte);
  std::fill(fields.begin() + static_cast<std::ptrdiff_t>(count), fields.end(), std::uint8_t{0});
  std::array<std::uint8_t, kGroup> packed;
  if (bits == 8) {
    packed = fields;
  } else if (bits == 4) {
    for (std::size_t i = 0; i < kGroup / 2; ++i) {
      packed[i] = static_cast<std::uint8_t>(fields[2 * i] | fields[2 * i + 1] << 4);
    }
  } else {
    for (std::size_t i = 0; i < kGroup / 4; ++i) {
      packed[i] = static_cast<std::uint8_t>(fields[4 * i] | fields[4 * i + 1] << 2 | fields[4 * i + 2] << 4 |
                                            fields[4 * i + 3] << 6);
    }
  }
  std::memcpy(out, packed.data(), bytes);
}

void unpack_fields(std::size_t bits, const std::byte* in, std::size_t count, Fields& fields) {
  std::array<std::uint8_t, kGroup> packed{};
  std::memcpy(packed.data(), in, wire::ceil_div(count, 8 / bits));
  if (bits == 8) {
    fields = packed;
  } else if (bits == 4) {
    for (std::size_t i = 0; i < kGroup / 2; ++i) {
      fields[2 * i] = packed[i] & 0xfu;
      fields[2 * i + 1] = static_cast<std::uint8_t>(packed[i] >> 4);
    }
  } else {
    for (std::size_t i = 0; i < kGroup / 4; ++i) {
      for (std::size_t k = 0; k < 4; ++k) fields[4 * i + k] = (packed[i] >> (2 * k)) & 0x3u;
    }
  }
}

}  // namespace gossamer::compress
