#pragma once
// PublicKey is by what a peer, or who vouches for peers, is known.
#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer::node {

/// A peer's: of X25519, with which it makes connections (CURVE). An authority's: of Ed25519, with which
/// certificates are checked.
struct PublicKey {
  static constexpr std::size_t kSize = 32;
  std::array<unsigned char, kSize> bytes{};

  auto operator<=>(const PublicKey&) const = default;
};

/// 64 hexadecimal digits.
std::string text_of(const PublicKey& key);
/// Empty where the text is not 64 hexadecimal digits, large or small.
std::optional<PublicKey> public_key_of(std::string_view text);
/// As above; throws std::invalid_argument: what was found, what was expected.
PublicKey read_public_key(std::string_view text);

}  // namespace gossamer::node
