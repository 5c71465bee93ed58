#include "fields.h"

#include <algorithm>
#include <cstring>

#include "level_kernels.h"
#include "wire.h"

namespace gossamer::compress {

void pack_fields(std::size_t bits, Fields& fields, std::size_t count, std::byte* out) {
  constexpr std::size_t kGroup = EntryBits::kGroup;
  if (count < kGroup)
    std::fill(fields.begin() + static_cast<std::ptrdiff_t>(count), fields.end(), std::uint8_t{0});
  Fields pairs, fours;
  const std::uint8_t* packed = fields.data();
  if (bits == 2) pack_pairs(2, packed, kGroup, pairs.data()), packed = pairs.data();
  if (bits <= 4) pack_pairs(4, packed, kGroup * bits / 4, fours.data()), packed = fours.data();
  std::memcpy(out, packed, wire::ceil_div(count, 8 / bits));
}

void unpack_fields(std::size_t bits, const std::byte* in, std::size_t count, Fields& fields) {
  constexpr std::size_t kGroup = EntryBits::kGroup;
  Fields packed, fours;
  Fields& to = bits == 8 ? fields : packed;
  const std::size_t bytes = wire::ceil_div(count, 8 / bits);
  std::memcpy(to.data(), in, bytes);
  if (count < kGroup) std::fill(to.begin() + static_cast<std::ptrdiff_t>(bytes), to.end(), std::uint8_t{0});
  if (bits == 4) unpack_pairs(4, packed.data(), kGroup, fields.data());
  if (bits != 2) return;
  unpack_pairs(4, packed.data(), kGroup / 2, fours.data());
  unpack_pairs(2, fours.data(), kGroup, fields.data());
}

}  // namespace gossamer::compress
