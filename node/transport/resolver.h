#pragma once
// Resolver finds the host names that cannot be looked up.
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gossamer::node {

/// Looks up the names of hosts on a thread of its own, each until it is found: ZeroMQ, which looks them up by
/// itself, keeps its failures to itself. Starts no thread where all are addresses.
class Resolver {
 public:
  /// addresses: tcp://host:port.
  explicit Resolver(const std::vector<std::string>& addresses);
  ~Resolver();  ///< does not wait for the resolver
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// By address, what the resolver says of those that have not been found yet.
  std::map<std::string, std::string> failures() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace gossamer::node
