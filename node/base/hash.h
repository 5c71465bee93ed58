#pragma once
// These hashes are XXH3 with 64 bits: the same on every machine, and no protection against forged
// collisions.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace gossamer::node {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text);
std::uint64_t hash_floats(std::span<const float> x);

/// hash_bytes of what it is given piece by piece.
class Hasher {
 public:
  Hasher();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace gossamer::node
