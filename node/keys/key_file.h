#pragma once
// These functions make keys and keep them in files that their owner alone can read.
#include <string>

#include "public_key.h"
#include "secret.h"

namespace gossamer::node {

/// What a key is for.
enum class KeyKind {
  peer,      ///< to make connections: X25519
  authority  ///< to sign peers' certificates: Ed25519
};
std::string_view name_of(KeyKind kind);

struct KeyPair {
  KeyKind kind = KeyKind::peer;
  std::string name;  ///< of the peer, or what an authority calls itself
  PublicKey public_key;
  Secret secret{32};  ///< of an authority the seed
};

KeyPair make_key_pair(KeyKind kind, const std::string& name);

/// Makes a file with mode 0600, which is on the disk when this returns. Throws ConfigError where one is there
/// already, which is left as it is, or where none can be made.
void write_key_file(const std::string& path, const KeyPair& pair);
/// Throws ConfigError, never with a part of the secret: where there is no such file; where others than its
/// owner may read or write it, or its owner is neither this user nor root; where a line is none of a key file
/// (path:line); where the public key is not that of the secret one.
KeyPair read_key_file(const std::string& path);

}  // namespace gossamer::node
