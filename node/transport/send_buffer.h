#pragma once
// How many bytes of a connection wait in the kernel.

namespace gossamer::node {

/// What the kernel may hold of what is sent over a near connection: twice the SO_SNDBUF that is asked for,
/// which Linux allows everybody.
constexpr int kNearSendBuffer = 2 * 208 * 1024;
/// Near is who answers the connection's handshake in this time: kNearSendBuffer in each is 6.8 Gbit/s.
constexpr double kNear_s = 0.5e-3;

/// Keeps a fast connection's send buffer small where the other end is near; elsewhere, and where the
/// descriptor is of no TCP connection, nothing changes. By itself the kernel lets the buffer grow to
/// megabytes even where an acknowledgement takes microseconds, and what waits there leaves the caches before
/// it is sent: 87 ms for 66 in a full reduce of 25 MB between 4 network namespaces of one machine. Where the
/// link is slow the caches do not matter, and what waits in the kernel keeps it busy.
void limit_send_buffer(int connection);

}  // namespace gossamer::node
