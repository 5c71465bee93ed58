#pragma once
// Numbers as bytes, 7 bits each from the lowest on; the highest bit is set in all but a number's last byte.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gossamer::node {

inline void put_varint(std::uint64_t value, std::vector<std::byte>& bytes) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<std::byte>((value & 127) | 128));
  bytes.push_back(static_cast<std::byte>(value));
}

/// Takes a number off the front; empty where there is none up to `most`.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes, std::uint64_t most) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 63; shift += 7) {
    const auto part = std::to_integer<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    value |= (part & 127) << shift;
    if (value > most) return std::nullopt;
    if (part < 128) return value;
  }
  return std::nullopt;
}

}  // namespace gossamer::node
