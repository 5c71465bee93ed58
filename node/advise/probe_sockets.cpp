#include "probe_sockets.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <zmq.hpp>

#include "frame.h"
#include "hash.h"
#include "listening.h"
#include "uninterrupted.h"

namespace gossamer::node {
namespace {

constexpr int kHandshake_ms = 1000, kReconnect_ms = 50, kReconnectMost_ms = 500, kLinger_ms = 1000;
constexpr int kQueue = 1024;  ///< messages: how much is under way is the sender's own affair

static_assert(std::is_trivially_copyable_v<ProbeMessage>);

std::uint64_t session_of(const ProbeSpec& spec) {
  std::string text = "gossamer probe 1";
  for (std::size_t i = 0; i < spec.names.size(); ++i) text += "\n" + spec.names[i] + " " + spec.addresses[i];
  return hash_text(text);
}

}  // namespace

struct ProbeSockets::Sockets {
  zmq::context_t context{1};
  zmq::socket_t in{context, zmq::socket_type::router};
  std::vector<zmq::socket_t> out;  ///< by peer; that of the peer itself is not connected
};

ProbeSockets::ProbeSockets(const ProbeSpec& spec)
    : spec_(spec),
      session_(session_of(spec)),
      sockets_(std::make_unique<Sockets>()),
      begin_(std::chrono::steady_clock::now()) {
  const auto common = [](zmq::socket_t& s) {
    s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxFrameBytes));
    s.set(zmq::sockopt::handshake_ivl, kHandshake_ms);
    s.set(zmq::sockopt::ipv6, has_ipv6());
    s.set(zmq::sockopt::rcvhwm, kQueue);
    s.set(zmq::sockopt::sndhwm, kQueue);
  };
  common(sockets_->in);
  sockets_->in.set(zmq::sockopt::linger, 0);
  try {
    listen(sockets_->in, spec.bind);
  } catch (const zmq::error_t& e) {
    throw ConfigError(fmt::format("cannot listen on {}: {}; {}", spec.bind, e.what(),
                                  e.num() == EADDRINUSE
                                      ? "another program listens there, perhaps a peer of a run; end it"
                                      : "the bind address of a peer must be one of this machine"));
  }
  for (PeerId p = 0; p < spec.names.size(); ++p) {
    zmq::socket_t& out = sockets_->out.emplace_back(sockets_->context, zmq::socket_type::dealer);
    common(out);
    out.set(zmq::sockopt::immediate, true);
    out.set(zmq::sockopt::linger, kLinger_ms);
    out.set(zmq::sockopt::reconnect_ivl, kReconnect_ms);
    out.set(zmq::sockopt::reconnect_ivl_max, kReconnectMost_ms);
    if (p != spec.self) out.connect(spec.addresses[p]);
  }
}

ProbeSockets::~ProbeSockets() = default;

double ProbeSockets::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

bool ProbeSockets::send(PeerId to, const ProbeMessage& message, std::size_t filler) {
  zmq::message_t bytes(sizeof(ProbeMessage) + filler);
  ProbeMessage stamped = message;
  stamped.session = session_;
  stamped.sender = spec_.self;
  std::memcpy(bytes.data(), &stamped, sizeof stamped);
  std::memset(static_cast<char*>(bytes.data()) + sizeof stamped, 0x5a, filler);
  return send_uninterrupted(sockets_->out[to], bytes, zmq::send_flags::dontwait);
}

std::optional<ProbeMessage> ProbeSockets::receive(double seconds) {
  const double until = now() + seconds;
  while (true) {
    zmq::message_t identity, body;
    if (!receive_uninterrupted(sockets_->in, identity, zmq::recv_flags::dontwait)) {
      const double left = until - now();
      if (left <= 0) return std::nullopt;
      zmq::pollitem_t item{sockets_->in.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq_poll(&item, 1, static_cast<long>(left * 1000 + 0.999)) < 0 && errno == EINTR)
        return std::nullopt;
      continue;
    }
    int parts = 0;
    for (bool more = identity.more(); more; more = body.more(), ++parts)
      if (!receive_uninterrupted(sockets_->in, body)) break;
    ProbeMessage message;
    if (parts != 1 || body.size() < sizeof message) continue;
    std::memcpy(&message, body.data(), sizeof message);
    const std::size_t peers = spec_.names.size();
    if (message.session == session_ && message.sender < peers && message.pair.a < peers &&
        message.pair.b < peers)
      return message;
  }
}

}  // namespace gossamer::node
