#pragma once
// Locks are what a peer's connections are closed with to all but those who may speak.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certificate.h"
#include "gate.h"
#include "key_file.h"

namespace gossamer::node {

struct Locks {
  std::shared_ptr<const KeyPair> own;
  std::shared_ptr<Gate> gate;                ///< for whoever connects to this peer
  std::optional<Certificate> certificate{};  ///< shown to those that this peer connects to
  /// By name the public keys under which a peer may listen: one by one they are tried.
  std::map<std::string, std::vector<PublicKey>> keys{};
};

/// With these one connection to one member is made.
struct ClientKeys {
  std::shared_ptr<const KeyPair> own;
  PublicKey server;
  std::optional<Certificate> certificate{};
};

}  // namespace gossamer::node
