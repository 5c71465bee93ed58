// What the kernel holds of what is sent to who is near.
#include "send_buffer.h"

#include "tcp_pair.h"

using namespace gossamer::node;

namespace {

int buffer_of(int socket) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  REQUIRE(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0);
  return bytes;
}

}  // namespace

TEST_CASE("a connection of this machine is given a small send buffer") {
  const TcpPair pair;
  limit_send_buffer(pair.far);
  CHECK(buffer_of(pair.far) <= kNearSendBuffer);
  limit_send_buffer(pair.near);
  CHECK(buffer_of(pair.near) <= kNearSendBuffer);
}

TEST_CASE("what is no TCP connection keeps its send buffer") {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const int before = buffer_of(ends[0]);
  limit_send_buffer(ends[0]);
  CHECK(buffer_of(ends[0]) == before);
  limit_send_buffer(-1);
  for (const int end : ends) close(end);
}
