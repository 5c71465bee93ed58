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
  if (bits == 8) {
    std::memcpy(out, fields.data(), count);
    return;
  }
  Fields twos, last;
  auto* const to = count == kGroup ? reinterpret_cast<std::uint8_t*>(out) : last.data();
  if (bits == 4) pack_pairs(4, fields.data(), kGroup, to);
  if (bits == 2) {
    pack_pairs(2, fields.data(), kGroup, twos.data());
    pack_pairs(4, twos.data(), kGroup / 2, to);
  }
  if (count < kGroup) std::memcpy(out, last.data(), wire::ceil_div(count, 8 / bits));
}

void unpack_fields(std::size_t bits, const std::byte* in, std::size_t count, Fields& fields) {
  constexpr std::size_t kGroup = EntryBits::kGroup;
  Fields padded, twos;
  const auto* from = reinterpret_cast<const std::uint8_t*>(in);
  if (count < kGroup) {
    padded.fill(0);
    std::memcpy(padded.data(), in, wire::ceil_div(count, 8 / bits));
    from = padded.data();
  }
  if (bits == 8) std::memcpy(fields.data(), from, kGroup);
  if (bits == 4) unpack_pairs(4, from, kGroup, fields.data());
  if (bits != 2) return;
  unpack_pairs(4, from, kGroup / 2, twos.data());
  unpack_pairs(2, twos.data(), kGroup, fields.data());
}

}  // namespace gossamer::compress
