#pragma once
// Where peers listen and how they are reached: tcp://host:port, with IPv6 addresses in brackets.
#include <string>

namespace gossamer::node {

struct Endpoint {
  std::string host, port;  ///< without brackets
};
/// Of an address that job files take.
Endpoint endpoint_of(const std::string& address);
/// An address and no name.
bool is_numeric(const std::string& host);
/// 0.0.0.0, ::, also in their other spellings: all addresses of a machine, to listen on alone.
bool is_any_address(const std::string& host);

/// Some interface of this machine has an IPv6 address.
bool has_ipv6();
/// The same with the host's name replaced by the address that peers on this machine connect to, since ZeroMQ
/// listens on addresses and interfaces alone. '*' and names of interfaces stay. May wait for the resolver.
/// Throws ConfigError where there is no such host.
std::string listening_endpoint(const std::string& bind);

}  // namespace gossamer::node
