#pragma once
// These hashes are XXH3 with 64 bits: the same on every machine, and no protection against forged
// collisions.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gossamer::node {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text);
std::uint64_t hash_floats(std::span<const float> x);

}  // namespace gossamer::node
