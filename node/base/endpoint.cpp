#include "endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

namespace gossamer::node {
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

bool is_loopback(const std::string& host) {
  return (host.starts_with("127.") && is_numeric(host)) || host == "::1" || host == "[::1]" ||
         host == "localhost";
}

bool is_any_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_aton(host.c_str(), &four) != 0) return four.s_addr == INADDR_ANY;
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six);
}

}  // namespace gossamer::node
