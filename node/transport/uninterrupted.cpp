#include "uninterrupted.h"

#include <cerrno>

namespace gossamer::node {
namespace {

template <class Call>
auto repeated(const Call& call) {
  while (true) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace

bool receive_uninterrupted(zmq::socket_t& socket, zmq::message_t& into, zmq::recv_flags flags) {
  return repeated([&] { return socket.recv(into, flags); }).has_value();
}

bool send_uninterrupted(zmq::socket_t& socket, zmq::message_t& message, zmq::send_flags flags) {
  return repeated([&] { return socket.send(message, flags); }).has_value();
}

int events_uninterrupted(zmq::socket_t& socket) {
  return repeated([&] { return socket.get(zmq::sockopt::events); });
}

}  // namespace gossamer::node
