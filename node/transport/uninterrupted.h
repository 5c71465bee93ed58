#pragma once
// These functions read and write ZeroMQ's sockets as the library does, but that a signal which comes
// meanwhile is no error: whoever waits for one looks for it afterwards.
#include <zmq.hpp>

namespace gossamer::node {

/// False where nothing is there (dontwait). Throws zmq::error_t, never EINTR.
bool receive_uninterrupted(zmq::socket_t& socket, zmq::message_t& into,
                           zmq::recv_flags flags = zmq::recv_flags::none);
/// False where the socket takes nothing now (dontwait); the message is left then. Throws as above.
bool send_uninterrupted(zmq::socket_t& socket, zmq::message_t& message, zmq::send_flags flags);

/// Which of reading and writing would find or take something: the socket takes in what happened to it.
int events_uninterrupted(zmq::socket_t& socket);

}  // namespace gossamer::node
