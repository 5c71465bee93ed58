#include "fields.h"

#include <algorithm>
#include <cstring>

#include "level_kernels.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

/// Eight fields make `bits` whole bytes. Fields past count are 0.
void pack_eights(std::size_t bits, const Fields& fields, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; i += 8, out += bits) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < 8; ++j) word |= std::uint64_t{fields[i + j]} << (bits * j);
    std::memcpy(out, &word, i + 8 <= count ? bits : wire::ceil_div((count - i) * bits, 8));
  }
}

void unpack_eights(std::size_t bits, const std::byte* in, std::size_t count, Fields& fields) {
  const auto mask = (std::uint64_t{1} << bits) - 1;
  fields.fill(0);
  for (std::size_t i = 0; i < count; i += 8, in += bits) {
    std::uint64_t word = 0;
    std::memcpy(&word, in, i + 8 <= count ? bits : wire::ceil_div((count - i) * bits, 8));
    for (std::size_t j = 0; j < 8; ++j, word >>= bits) fields[i + j] = static_cast<std::uint8_t>(word & mask);
  }
}

constexpr bool is_power_of_two(std::size_t bits) { return (bits & (bits - 1)) == 0; }

}  // namespace

void pack_fields(std::size_t bits, Fields& fields, std::size_t count, std::byte* out) {
  constexpr std::size_t kGroup = EntryBits::kGroup;
  if (count < kGroup)
    std::fill(fields.begin() + static_cast<std::ptrdiff_t>(count), fields.end(), std::uint8_t{0});
  if (!is_power_of_two(bits)) return pack_eights(bits, fields, count, out);
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
  if (!is_power_of_two(bits)) return unpack_eights(bits, in, count, fields);
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
