#pragma once
// A certificate says that an authority admits a key under a name for some time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "key_file.h"
#include "public_key.h"

namespace gossamer::node {

struct Certificate {
  static constexpr std::size_t kMostName = 64, kSignature = 64;
  static constexpr std::size_t kMostBytes = 512;  ///< on the wire; none of this version is longer than 181

  std::string name;              ///< under which the peer may speak
  PublicKey key;                 ///< the peer's
  std::int64_t not_after_s = 0;  ///< Unix time; at it the certificate holds for the last time
  std::array<unsigned char, kSignature> signature{};

  bool operator==(const Certificate&) const = default;
};

/// Ed25519 over all but the signature, after words that no other signed text begins with. Precondition: the
/// name has 1 to kMostName bytes, and the pair is an authority's.
Certificate sign_certificate(const KeyPair& authority, const std::string& name, const PublicKey& key,
                             std::int64_t not_after_s);
bool is_signed_by(const Certificate& certificate, const PublicKey& authority);

/// "GSMCERT1", key, time (8 bytes, little endian), name's length (1 byte), name, signature.
std::vector<std::byte> encode_certificate(const Certificate& certificate);
/// Empty where the bytes are none. Looks at the form alone: whose signature it is is_signed_by tells.
std::optional<Certificate> decode_certificate(std::span<const std::byte> bytes);

/// One line: "gossamer-certificate:" and Base64 (URL-safe).
std::string text_of(const Certificate& certificate);
std::optional<Certificate> certificate_of(std::string_view text);
/// A file with that line, and lines that begin with '#'. Throws ConfigError with the path where there is
/// none.
Certificate read_certificate_file(const std::string& path);
void write_certificate_file(const std::string& path, const Certificate& certificate);

/// By this machine's clock.
std::int64_t unix_now_s();
/// "2027-01-31 12:00:00 UTC"
std::string time_text(std::int64_t unix_s);

}  // namespace gossamer::node
