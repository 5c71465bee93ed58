#include "send_buffer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace gossamer::node {

void limit_send_buffer(int connection) {
  tcp_info info{};
  info.tcpi_min_rtt = UINT32_MAX;  // a kernel that does not know it leaves it
  socklen_t size = sizeof info;
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (info.tcpi_min_rtt > kNear_s * 1e6) return;
  const int asked = kNearSendBuffer / 2;  // the kernel doubles it, for what it keeps beside the bytes
  setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &asked, sizeof asked);
}

}  // namespace gossamer::node
