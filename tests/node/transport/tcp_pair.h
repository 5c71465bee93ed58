#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "gossamer_test/catch.h"

namespace gossamer::node {

/// Two ends of a TCP connection of the loopback.
struct TcpPair {
  int near = -1, far = -1;
  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    far = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(far, reinterpret_cast<sockaddr*>(&at), size) == 0);
    near = accept(listener, nullptr, nullptr);
    REQUIRE(near >= 0);
    close(listener);
  }
  ~TcpPair() { close(near), close(far); }
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;

  /// The near end takes so many bytes in.
  void carry(std::size_t bytes) const {
    std::array<char, 4096> block{};
    while (bytes > 0) {
      const ssize_t sent = send(far, block.data(), std::min(bytes, block.size()), MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      bytes -= static_cast<std::size_t>(sent);
      for (ssize_t left = sent; left > 0;)
        left -= recv(near, block.data(), static_cast<std::size_t>(left), 0);
    }
  }
  /// The far end sees the end of it.
  bool is_cut() const {
    char byte;
    return recv(far, &byte, 1, MSG_DONTWAIT) == 0;
  }
};

}  // namespace gossamer::node
