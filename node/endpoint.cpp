#include "endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <fstream>

#include "gossamer/node/job.h"

namespace gossamer::node {
namespace {

/// The first address as ZeroMQ's own look-up finds it, so that a peer listens where the others connect to.
std::string first_address(const Endpoint& endpoint, const std::string& bind) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = has_ipv6() ? AF_INET6 : AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_V4MAPPED;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &wanted, &found); error != 0)
    throw ConfigError(fmt::format(
        "cannot listen on {}: {}: {}; the bind address of a peer must be one of this machine, such as "
        "tcp://*:{}",
        bind, endpoint.host, gai_strerror(error), endpoint.port));
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  const std::string address = text.data(), mapped = "::ffff:";
  if (address.starts_with(mapped)) return address.substr(mapped.size());
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

}  // namespace

Endpoint endpoint_of(const std::string& address) {
  const std::string rest = address.substr(std::string("tcp://").size());
  const std::size_t colon = rest.rfind(':');
  std::string host = rest.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {host, rest.substr(colon + 1)};
}

bool is_numeric(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

bool is_any_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_aton(host.c_str(), &four) != 0) return four.s_addr == INADDR_ANY;
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six);
}

bool has_ipv6() {
  std::ifstream addresses("/proc/net/if_inet6");
  return addresses.peek() != std::ifstream::traits_type::eof();
}

std::string listening_endpoint(const std::string& bind) {
  const Endpoint endpoint = endpoint_of(bind);
  if (endpoint.host == "*" || is_numeric(endpoint.host) || if_nametoindex(endpoint.host.c_str()) != 0)
    return bind;
  return "tcp://" + first_address(endpoint, bind) + ":" + endpoint.port;
}

}  // namespace gossamer::node
