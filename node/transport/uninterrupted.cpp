#include "uninterrupted.h"

#include <cerrno>

namespace gossamer::node {
namespace {

template <class Call>
bool repeated(const Call& call) {
  while (true) {
    try {
      return call().has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace

bool receive_uninterrupted(zmq::socket_t& socket, zmq::message_t& into, zmq::recv_flags flags) {
  return repeated([&] { return socket.recv(into, flags); });
}

bool send_uninterrupted(zmq::socket_t& socket, zmq::message_t& message, zmq::send_flags flags) {
  return repeated([&] { return socket.send(message, flags); });
}

}  // namespace gossamer::node
