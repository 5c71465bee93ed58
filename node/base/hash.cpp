#include "hash.h"

#include <xxhash.h>

namespace gossamer::node {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::uint64_t hash_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::uint64_t hash_floats(std::span<const float> x) { return XXH3_64bits(x.data(), x.size_bytes()); }

}  // namespace gossamer::node
