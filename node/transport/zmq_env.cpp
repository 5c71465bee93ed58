#include "zmq_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <zmq.hpp>

#include "gossamer/node/errors.h"
#include "listening.h"
#include "machine.h"
#include "text.h"
#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

/// Keys take several round trips, each as long as what waits before them on a link that is busy.
constexpr int kHandshake_ms = 8000, kHeartbeat_ms = 500;
constexpr double kLeastHeartbeatTimeout_s = 30, kMostHeartbeatTimeout_s = 86400;
constexpr int kReconnect_ms = 50, kReconnectMost_ms = 500, kLinger_ms = 1000;
/// Frames of one link handed to ZeroMQ and not sent: 1 MiB at most, 4 MiB where the link is fast.
constexpr int kSendQueue = 8;
constexpr int kReceiveQueue = 64;  ///< frames of one connection that wait inside ZeroMQ
constexpr double kFlush_s = 1.0;
/// Control frames repeat what they say, counts of samples those of half a second later: an old one that could
/// not leave yet is worth little.
constexpr std::size_t kMostControlFrames = 8;
constexpr double kLetGoAfter_s = 5, kTellFullEvery_s = 60;
constexpr int kKeepalive_s = 60;
/// Of the status, to whoever asks.
constexpr double kAnswersEach_s = 10, kMostAnswersAtOnce = 10;

/// A peer that is stopped for less than the silence that is allowed keeps its connections.
int heartbeat_timeout_ms(const ZmqSpec& spec) {
  return static_cast<int>(
      1000 * std::clamp(1.5 * spec.silence_timeout_s, kLeastHeartbeatTimeout_s, kMostHeartbeatTimeout_s));
}

void set_common(zmq::socket_t& s, const ZmqSpec& spec) {
  s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxFrameBytes));
  s.set(zmq::sockopt::handshake_ivl, kHandshake_ms);
  s.set(zmq::sockopt::heartbeat_ivl, kHeartbeat_ms);
  s.set(zmq::sockopt::heartbeat_timeout, heartbeat_timeout_ms(spec));
  s.set(zmq::sockopt::ipv6, has_ipv6());
  // who vanishes without a word, as a machine that changes its network, leaves no connection for ever
  s.set(zmq::sockopt::tcp_keepalive, 1);
  s.set(zmq::sockopt::tcp_keepalive_idle, kKeepalive_s);
  s.set(zmq::sockopt::tcp_keepalive_intvl, kKeepalive_s / 3);
  s.set(zmq::sockopt::tcp_keepalive_cnt, 3);
}

/// A socket on which the monitored one's events arrive.
zmq::socket_t monitor(zmq::context_t& context, zmq::socket_t& socket, const std::string& name, int events) {
  const std::string address = "inproc://" + name;
  if (zmq_socket_monitor(socket.handle(), address.c_str(), events) != 0) throw zmq::error_t();
  zmq::socket_t listener(context, zmq::socket_type::pair);
  listener.set(zmq::sockopt::linger, 0);
  listener.connect(address);
  return listener;
}

}  // namespace

ZmqEnv::ZmqEnv(const ZmqSpec& spec)
    : spec_(spec), sockets_(std::make_unique<Sockets>()), begin_(std::chrono::steady_clock::now()) {
  zmq::socket_t& in = sockets_->in;
  set_common(in, spec);
  // libzmq ends the program where a ping is due on a connection that broke while it was not read
  in.set(zmq::sockopt::heartbeat_ivl, 0);
  in.set(zmq::sockopt::router_mandatory, true);
  // who dials again has left the old connection; with locks no connection has a name that it chose
  in.set(zmq::sockopt::router_handover, !spec.locks);
  in.set(zmq::sockopt::sndhwm, kSendQueue);
  in.set(zmq::sockopt::rcvhwm, kReceiveQueue);
  in.set(zmq::sockopt::linger, 0);
  if (spec.locks) {
    sockets_->zap.emplace(sockets_->context, *spec.locks->gate);
    lock(in, *spec.locks->own, nullptr);
    in.set(zmq::sockopt::zap_domain, "gossamer");
  }
  sockets_->in_events = monitor(sockets_->context, in, "in",
                                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                    ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED);
  sockets_->in_waker = Waker(in);
  sockets_->in_events_waker = Waker(sockets_->in_events);
  if (spec.bind.empty()) return;
  try {
    endpoint_ = listen(in, spec.bind);
    if (spec.shared_memory) sockets_->memory.open(endpoint_, !spec.locks);  // else ZeroMQ says who speaks
  } catch (const zmq::error_t& e) {
    const char* advice =
        e.num() == EADDRINUSE
            ? "another program listens there, perhaps a peer of an earlier run; end it, or choose other "
              "ports (--set base_port=…, or the peer's address in the topology file)"
            : "the bind address of a peer must be one of this machine, such as tcp://*:7001";
    throw ConfigError(fmt::format("cannot listen on {}: {}; {}", spec_.bind, e.what(), advice));
  }
}

ZmqEnv::~ZmqEnv() = default;

void ZmqEnv::connect(PeerId to) {
  sockets_->out.push_back(std::make_unique<Out>());
  sockets_->out.back()->peer = to;
  dial(to);
}

void ZmqEnv::hang_up(Out& out) {
  if (out.socket) zmq_socket_monitor(out.socket.handle(), nullptr, 0);
  out.was_there = out.stands = out.full = false;
  out.connection = -1;
  sockets_->memory.broken(out.peer);
  out.socket = {}, out.events = {};
}

/// Those that nothing stands with nor is told, as of a member that has gone, cost nothing: three files each,
/// for ever, of every name that was there once. What cannot be dialled has none, and was named once.
void ZmqEnv::let_go_of_idle() {
  std::erase_if(sockets_->out, [&](const auto& out) {
    const bool control_alone = out->queue.size() == out->queue.size(priority::kControl);
    const bool idle = out->socket && !out->stands && now_ >= out->told_last + kLetGoAfter_s;
    if (!idle || !control_alone) return false;
    hang_up(*out);
    dropped_control_ += out->queue.size();
    return true;
  });
}

/// With new sockets; what waits to be sent goes on waiting.
void ZmqEnv::dial(PeerId to) try {
  Out* out = sockets_->to(to);
  hang_up(*out);
  out->let_go = false;
  out->told_last = out->event_at = now_;
  if (!spec_.addresses[to].starts_with("tcp://")) return;  // empty: it has dialled, or will
  const PublicKey* server = nullptr;
  if (spec_.locks) {
    const auto keys = spec_.locks->keys.find(names_[to]);
    if (keys == spec_.locks->keys.end() || keys->second.empty()) return;  // nobody says who it is
    server = &keys->second[out->key % keys->second.size()];
    out->server = *server;
  }
  out->socket = zmq::socket_t(sockets_->context, zmq::socket_type::dealer);
  set_common(out->socket, spec_);
  out->socket.set(zmq::sockopt::sndhwm, kSendQueue);
  out->socket.set(zmq::sockopt::immediate, true);
  out->socket.set(zmq::sockopt::linger, kLinger_ms);
  out->socket.set(zmq::sockopt::reconnect_ivl, kReconnect_ms);
  out->socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMost_ms);
  out->events = monitor(sockets_->context, out->socket, fmt::format("out-{}-{}", to, ++dialled_),
                        ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                            ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  out->waker = Waker(out->socket), out->events_waker = Waker(out->events);
  if (server) lock(out->socket, *spec_.locks->own, server);
  if (spec_.bind.empty() && !spec_.locks) out->socket.set(zmq::sockopt::routing_id, spec_.name);
  if (!spec_.bind.empty()) out->socket.set(zmq::sockopt::rcvhwm, 1);  // nothing is to come, nor read
  try {
    out->socket.connect(spec_.addresses[to]);
  } catch (const zmq::error_t& error) {  // of one that came later, as others tell of it
    log(fmt::format("{} cannot be reached at {}: {}", names_[to], in_quotes(shortened(spec_.addresses[to])),
                    error.what()));
    out->socket = {}, out->events = {};
  }
} catch (const zmq::error_t& error) {  // no more sockets, or files
  Out& out = *sockets_->to(to);
  hang_up(out);
  out.let_go = true;
  if (now_ < told_full_ + kTellFullEvery_s) return;
  told_full_ = now_;
  log(fmt::format("no connection to {}: {}; it is tried again (ulimit -n raises what a process may open)",
                  names_[to], error.what()));
}

void ZmqEnv::tick() {
  now_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void ZmqEnv::traced(const TraceSpan& span) {
  if (!trace) return;
  const double began = std::chrono::duration<double>(begin_.time_since_epoch()).count();
  TraceSpan absolute = span;
  absolute.begin_s += began;
  absolute.end_s += began;
  trace->add(std::move(absolute));
}

void ZmqEnv::send(PeerId to, FrameBytes frame, std::uint32_t priority) {
  if (!sockets_->to(to)) connect(to);
  Out& out = *sockets_->to(to);
  out.told_last = now_;
  out.connect_again |= std::exchange(out.let_go, false);
  if (out.queue.empty()) out.waits_since = now_, out.waited_bytes = 0;
  out.waited_bytes += frame.size();
  out.queue.put(std::move(frame), priority);
  if (priority == priority::kControl && out.queue.size(priority) > kMostControlFrames) {
    out.queue.drop_oldest(priority);
    ++dropped_control_;
  }
}

Payload ZmqEnv::share(PeerId to, const Payload& payload) { return sockets_->memory.lendable(to, payload); }

void ZmqEnv::met(PeerId peer, const Contact& contact) {
  names_.resize(std::max<std::size_t>(names_.size(), peer + 1));
  const bool another = !names_[peer].empty() && names_[peer] != contact.name;
  names_[peer] = contact.name;
  spec_.addresses.resize(names_.size());
  if (!another && spec_.addresses[peer] == contact.address) return;
  spec_.addresses[peer] = contact.address;
  Out* out = sockets_->to(peer);
  if (!out) return;
  out->connect_again = true;  // not here: whoever walks the list may have called
  out->patience = Out{}.patience;
  if (!another) return;
  out->stands = false;
  while (!out->queue.empty()) out->queue.pop();
}

void ZmqEnv::answer(FrameBytes frame) {
  zmq::message_t to;
  to.copy(sockets_->asker);
  zmq::message_t body(frame->data(), frame->size());
  try {
    if (send_uninterrupted(sockets_->in, to, zmq::send_flags::sndmore | zmq::send_flags::dontwait))
      send_uninterrupted(sockets_->in, body, zmq::send_flags::dontwait);
  } catch (const zmq::error_t&) {  // it has gone, and ZeroMQ refuses what is for nobody
  }
}

std::size_t ZmqEnv::queued_bytes(PeerId to) const {
  const Out* out = sockets_->to(to);
  return out ? out->queue.bytes() : 0;
}

std::size_t ZmqEnv::backlog(PeerId to) const {
  const Out* out = sockets_->to(to);
  return out ? out->queue.size() - out->queue.size(priority::kControl) : 0;
}

void ZmqEnv::answer(std::uint64_t number, const std::function<StatusBody()>& status) {
  answers_ = std::min(kMostAnswersAtOnce, answers_ + kAnswersEach_s * (now_ - answers_at_));
  answers_at_ = now_;
  if (answers_ < 1) return;
  --answers_;
  AnswerBody body{number, status()};
  if (on_status) on_status(body.status);
  FrameHeader header;
  header.sender = kNoPeer;
  answer(encode_frame({header, std::move(body)}));
}

void ZmqEnv::loop(Member& member, const std::function<bool()>& stop) {
  member.start();
  while (!member.finished()) {
    poll(member, wake_at_);
    if (resolver_) watch_joining(member);
    if (on_turn && member.worker()) on_turn(*member.worker());
    if (stop && stop()) member.interrupt();
  }
  flush_queues(member);
}

/// The last frames tell the others how this peer ended; of one that finished they may still need the parcels,
/// too.
void ZmqEnv::flush_queues(Member& member) {
  const double until = now_ + kFlush_s;
  const bool parcels_too = member.result().outcome == Outcome::finished;
  const auto waiting = [&] {
    return std::any_of(sockets_->out.begin(), sockets_->out.end(), [&](const auto& out) {
      const std::size_t left = parcels_too ? out->queue.size() : out->queue.size(priority::kControl);
      return left > 0 && member.reachable(out->peer);
    });
  };
  push_all();
  while (waiting() && now_ < until) poll(member, std::min(until, now_ + 0.02));
}

State ZmqEnv::leave_view(const View& view) {
  data_->finish();
  data_->take_events();
  for (auto& out : sockets_->out) out->queue.drop_parcels();
  return data_->for_next_view(view.incarnations());
}

WorkerSpec ZmqEnv::enter_view(const View& view, double share) {
  auto [spec, make_data_plane] = on_view(view, share);
  data_ = make_data_plane();
  return std::move(spec);
}

WorkerResult ZmqEnv::run(MemberSpec first, std::optional<WorkerSpec> spec,
                         const DataPlaneFactory& make_data_plane, const std::function<bool()>& stop,
                         const State* state, Kept kept) {
  for (const Contact& peer : first.roster) names_.push_back(peer.name);
  std::vector<std::string> neighbours;
  if (spec)
    for (const PeerId p : spec->membership.links) {
      connect(p);
      if (!spec_.addresses[p].empty()) neighbours.push_back(spec_.addresses[p]);
    }
  if (first.join) neighbours.push_back(first.join->address);
  resolver_ = std::make_unique<Resolver>(neighbours);
  spec_.addresses.resize(std::max(spec_.addresses.size(), names_.size()));
  tick();
  Member member(std::move(first), *this, std::move(spec));
  data_ = make_data_plane();
  if (state) kept == Kept::all ? member.worker()->restore(*state) : member.worker()->restore_learned(*state);
  tick();
  loop(member, stop);
  data_->finish();
  WorkerResult result = member.result();
  if (resolver_ && result.outcome == Outcome::lost_peer) result.message += what_kept_them_away();
  sockets_.reset();
  return result;
}

std::span<const float> ZmqEnv::parameters() const { return data_->parameters(); }

}  // namespace gossamer::node
