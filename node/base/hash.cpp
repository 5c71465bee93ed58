#include "hash.h"

#include <xxhash.h>
#if GOSSAMER_XXHASH_DISPATCHES
#include <xxh_x86dispatch.h>  // the same functions by what the processor has take the names' places
#endif

#include <new>

namespace gossamer::node {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::uint64_t hash_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::uint64_t hash_floats(std::span<const float> x) { return XXH3_64bits(x.data(), x.size_bytes()); }

void Hasher::Free::operator()(void* state) const { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }

Hasher::Hasher() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}
void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}
std::uint64_t Hasher::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
}

}  // namespace gossamer::node
