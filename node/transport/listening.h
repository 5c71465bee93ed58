#pragma once
// These functions tell where a socket of this machine can listen, and make it.
#include <string>
#include <zmq.hpp>

namespace gossamer::node {

/// Some interface of this machine has an IPv6 address.
bool has_ipv6();
/// Binds the socket to tcp://host:port. A host's name stands for all its addresses ("localhost": 127.0.0.1
/// and ::1), as far as they are this machine's; '*' and names of interfaces go to ZeroMQ as they are; a
/// port '*' is any that is free. Gives the endpoints. May wait for the resolver. Throws ConfigError where
/// there is no such host, zmq::error_t where the socket cannot listen there.
std::string listen(zmq::socket_t& socket, const std::string& bind);

}  // namespace gossamer::node
