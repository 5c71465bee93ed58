#pragma once
// An Endpoint is where a peer listens and is reached: tcp://host:port, with IPv6 addresses in brackets.
#include <string>

namespace gossamer::node {

struct Endpoint {
  std::string host, port;  ///< without brackets
};
/// Of an address that job files take.
Endpoint endpoint_of(const std::string& address);
/// An address and no name.
bool is_numeric(const std::string& host);
/// This machine alone reaches it: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const std::string& host);
/// 0.0.0.0, ::, also in their other spellings: all addresses of a machine, to listen on alone.
bool is_any_address(const std::string& host);

}  // namespace gossamer::node
