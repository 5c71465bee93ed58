#include "listening.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <fstream>
#include <vector>

#include "endpoint.h"
#include "gossamer/node/errors.h"

namespace gossamer::node {
namespace {

/// All that the name stands for, in the resolver's order, without those that no interface can have.
std::vector<std::string> addresses_of(const Endpoint& endpoint, const std::string& bind) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = has_ipv6() ? AF_UNSPEC : AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &wanted, &found); error != 0)
    throw ConfigError(fmt::format(
        "cannot listen on {}: {}: {}; the bind address of a peer must be one of this machine, such as "
        "tcp://*:{}",
        bind, endpoint.host, gai_strerror(error), endpoint.port));
  std::vector<std::string> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    getnameinfo(a->ai_addr, a->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    const std::string address = a->ai_family == AF_INET6 ? fmt::format("[{}]", text.data()) : text.data();
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

/// ZeroMQ listens on addresses and interfaces alone, and '*'.
std::vector<std::string> endpoints_of(const std::string& bind) {
  const Endpoint endpoint = endpoint_of(bind);
  if (endpoint.host == "*" || is_numeric(endpoint.host) || if_nametoindex(endpoint.host.c_str()) != 0)
    return {bind};
  std::vector<std::string> endpoints;
  for (const std::string& address : addresses_of(endpoint, bind))
    endpoints.push_back("tcp://" + address + ":" + endpoint.port);
  return endpoints;
}

}  // namespace

bool has_ipv6() {
  std::ifstream addresses("/proc/net/if_inet6");
  return addresses.peek() != std::ifstream::traits_type::eof();
}

std::string listen(zmq::socket_t& socket, const std::string& bind) {
  std::string listening;
  std::exception_ptr foreign;
  for (const std::string& endpoint : endpoints_of(bind)) {
    try {
      socket.bind(endpoint);
      std::string at = endpoint;
      if (at.ends_with(":*")) {
        const std::string there = socket.get(zmq::sockopt::last_endpoint);
        at.replace(at.size() - 1, 1, there.substr(there.rfind(':') + 1));
      }
      listening += (listening.empty() ? "" : ", ") + at;
    } catch (const zmq::error_t& error) {
      if (error.num() != EADDRNOTAVAIL) throw;
      foreign = std::current_exception();
    }
  }
  if (listening.empty()) std::rethrow_exception(foreign);
  return listening;
}

}  // namespace gossamer::node
