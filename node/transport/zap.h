#pragma once
// ZapHandler answers ZeroMQ when its sockets ask whether a connection may be made (RFC 27, ZAP 1.0).
#include <atomic>
#include <thread>
#include <zmq.hpp>

#include "gate.h"

namespace gossamer::node {

/// For all sockets of one context that are CURVE servers, on a thread of its own. The User-Id of what comes
/// over a connection that is let in is the text of its public key.
class ZapHandler {
 public:
  /// Throws zmq::error_t where the context has a handler already.
  ZapHandler(zmq::context_t& context, Gate& gate);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

 private:
  void serve();

  Gate& gate_;
  zmq::socket_t socket_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace gossamer::node
