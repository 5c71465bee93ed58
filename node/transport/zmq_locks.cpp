// What locks add to a peer's sockets: keys, the certificate that is shown first, and in whose name a message
// is read.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>

#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

constexpr double kTellAgain_s = 10;

double steady_s(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(t.time_since_epoch()).count();
}

/// reason: ZeroMQ's protocol error; 0: the other side hung up. own: this peer's public key.
std::string why_turned_away(std::uint32_t reason, const std::string& own) {
  if (reason == 0 || reason == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
    return fmt::format(
        "it speaks without keys{} (expected [access] there, too, and this peer's public key, {})",
        reason == 0 ? ", or hung up before it showed one" : "", own);
  if (reason == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
    return fmt::format(
        "it takes this peer for one of another public key than {} (as others do for a moment "
        "while this peer changes its key)",
        own);
  return fmt::format("it does not keep to the protocol (ZeroMQ's {:#x})", reason);
}

/// The key of the connection that it came by.
std::optional<PublicKey> proved_by(zmq::message_t& body) {
  const char* user = zmq_msg_gets(body.handle(), "User-Id");
  return user ? public_key_of(user) : std::nullopt;
}

}  // namespace

void lock(zmq::socket_t& s, const KeyPair& own, const PublicKey* server) {
  const auto set = [&](int option, std::span<const unsigned char> key) {
    if (zmq_setsockopt(s.handle(), option, key.data(), key.size()) != 0) throw zmq::error_t();
  };
  set(ZMQ_CURVE_SECRETKEY, own.secret.bytes());
  if (!server) {
    s.set(zmq::sockopt::curve_server, true);
    return;
  }
  set(ZMQ_CURVE_PUBLICKEY, own.public_key.bytes);
  set(ZMQ_CURVE_SERVERKEY, server->bytes);
}

void show(zmq::socket_t& s, const Certificate& certificate) {
  const auto bytes = encode_certificate(certificate);
  zmq::message_t message(bytes.data(), bytes.size());
  (void)send_uninterrupted(s, message, zmq::send_flags::dontwait);
}

/// With locks: in whose name it may be read; none: it is not.
std::optional<std::string> ZmqEnv::speaker_of(zmq::message_t& body, int parts) {
  const auto key = proved_by(body);
  if (!key) return std::nullopt;
  const std::span bytes(static_cast<const std::byte*>(body.data()), parts == 1 ? body.size() : 0);
  return spec_.locks->gate->speaker(*key, bytes, steady_s(std::chrono::steady_clock::now()), unix_now_s());
}

/// Over a connection that stood before its key was revoked, or its certificate was over, nothing is read, and
/// its other end would never know.
void ZmqEnv::turn_away(zmq::message_t& body) {
  const auto key = proved_by(body);
  if (key && spec_.locks->gate->turns_away(*key, steady_s(std::chrono::steady_clock::now())))
    sockets_->door.turned_away(zmq_msg_get(body.handle(), ZMQ_SRCFD), now_);
}

std::vector<std::string> ZmqEnv::gate_news() {
  spec_.locks->gate->end_probation(steady_s(std::chrono::steady_clock::now()));
  return spec_.locks->gate->take_news();
}

std::optional<SocketEvent> next_event(zmq::socket_t& events) {
  // the first message begins with its number and value, the second is the address
  zmq::message_t event, address;
  if (!receive_uninterrupted(events, event, zmq::recv_flags::dontwait) ||
      !receive_uninterrupted(events, address))
    return std::nullopt;
  SocketEvent e;
  const auto* bytes = static_cast<const std::byte*>(event.data());
  if (event.size() < sizeof e.number + sizeof e.value) return e;
  std::memcpy(&e.number, bytes, sizeof e.number);
  std::memcpy(&e.value, bytes + sizeof e.number, sizeof e.value);
  return e;
}

void ZmqEnv::watch_door(const SocketEvent& event, Member& member) {
  const int fd = static_cast<int>(event.value);
  if (event.number == ZMQ_EVENT_ACCEPTED) return sockets_->door.accepted(fd, now_);
  if (event.number == ZMQ_EVENT_DISCONNECTED || event.number == ZMQ_EVENT_CLOSED)
    return sockets_->door.closed(fd);
  member.on_frame({});  // a stranger
  if (!spec_.locks) return;
  // of one that hung up first no more is known than that it went
  const bool hung_up = event.number != ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
  const std::uint32_t reason = hung_up ? 0 : event.value;
  const auto told = sockets_->told_failed.find(reason);
  if (told != sockets_->told_failed.end() && now_ < told->second + kTellAgain_s) return;
  sockets_->told_failed[reason] = now_;
  log("somebody was turned away: " + why_turned_away(reason, text_of(spec_.locks->own->public_key)));
}

void ZmqEnv::came_up(Out& out) {
  out.was_there = out.stands = out.waker.woke = true;
  out.patience = Out{}.patience;
  if (!spec_.locks || !spec_.locks->certificate) return;
  show(out.socket, *spec_.locks->certificate);  // takes in what happened before, too
}

void ZmqEnv::say_refused(Out& out) {
  if (now_ < out.told + kTellAgain_s) return;
  out.told = now_;
  const auto& certificate = spec_.locks->certificate;
  const bool over = certificate && certificate->not_after_s < unix_now_s();
  log(fmt::format(
      "{} refuses this peer's key ({}): {}", names_[out.peer], text_of(spec_.locks->own->public_key),
      over ? fmt::format("its certificate expired at {}; a new one admits it (gossamer keys sign)",
                         time_text(certificate->not_after_s))
           : "is it listed there, or revoked?"));
}

void ZmqEnv::change_access(AccessList access, std::map<std::string, std::vector<PublicKey>> keys) {
  spec_.locks->gate->replace(std::move(access));
  spec_.locks->keys = std::move(keys);
  sockets_->diallers.clear();  // until they speak again
  for (auto& out : sockets_->out) {
    const auto now = spec_.locks->keys.find(names_[out->peer]);
    const bool known = out->server && now != spec_.locks->keys.end() &&
                       std::find(now->second.begin(), now->second.end(), *out->server) != now->second.end();
    if (!out->stands || !known) out->connect_again = true;  // perhaps its key is known now, or no longer
  }
}

/// A peer that changes its key has two for a while.
void ZmqEnv::try_next_key(Out& out) {
  const auto keys = spec_.locks->keys.find(names_[out.peer]);
  if (keys == spec_.locks->keys.end() || keys->second.size() < 2) return;
  ++out.key;
  out.connect_again = true;
}

}  // namespace gossamer::node
