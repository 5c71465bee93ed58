#pragma once
// The sockets of a ZmqEnv.
#include <map>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "doorkeeper.h"
#include "frame_queue.h"
#include "neighbour_memory.h"
#include "uninterrupted.h"
#include "zap.h"
#include "zmq_env.h"

namespace gossamer::node {

/// With its own keys; of a client also that of the server, of which it then is sure. server: null for a
/// server.
void lock(zmq::socket_t& s, const KeyPair& own, const PublicKey* server);
/// What this peer is admitted by, before anything else is said over the connection.
void show(zmq::socket_t& s, const Certificate& certificate);

/// What a monitored socket tells: with connections their file descriptor, with handshakes why they failed.
struct SocketEvent {
  std::uint16_t number = 0;
  std::uint32_t value = 0;
};
std::optional<SocketEvent> next_event(zmq::socket_t& events);

/// The descriptor by which ZeroMQ says that something happened to a socket. It stays readable until one
/// looks, which is to read until nothing is there, or to ask for the socket's events. It need not tell of
/// what happened before the first look; nor of what came by a send, which now and then takes in what
/// happened: who also reads that socket looks after it.
struct Waker {
  int fd = -1;
  bool woke = false;  ///< something may have happened
  bool sent = false;  ///< something was sent since the last look

  Waker() = default;
  explicit Waker(zmq::socket_t& socket) : fd(socket.get(zmq::sockopt::fd)), woke(true) {}
};

struct ZmqEnv::Out {
  PeerId peer;
  zmq::socket_t socket, events;
  Waker waker{}, events_waker{};
  bool full = false;  ///< it took nothing more when it was last tried, and nothing has happened since that
                      ///< may have changed that
  FrameQueue queue;
  double waits_since = 0;                ///< when the first of those came
  std::size_t waited_bytes = 0;          ///< of those since then
  bool connect_again = false;            ///< elsewhere, or to have sent again what was lost
  std::optional<double> way_broke_at{};  ///< when the neighbour took no more frames in memory
  int connection = -1;                   ///< its descriptor, until its send buffer is limited
  bool was_there = false;                ///< a connection stood, since nothing was found to listen there
  bool stands = false;                   ///< the two have shaken hands, and since then nothing broke
  std::optional<PublicKey> server{};     ///< of the connection
  std::size_t key = 0;                   ///< of those that the peer may listen under, the one that is tried
  double told = -1e9;                    ///< when it was last said that it refuses this peer
  double told_last = 0;                  ///< when something was last to be sent, or it was dialled
  double event_at = 0;                   ///< of the connection, or when it was dialled
  double patience = 3;                   ///< with a connection that is being made
  bool let_go = false;                   ///< it has no sockets until something is to be sent again
};

/// One that has as many sockets as it can have: three for each peer.
inline zmq::context_t with_all_sockets() {
  zmq::context_t context(1);
  context.set(zmq::ctxopt::max_sockets, context.get(zmq::ctxopt::socket_limit));
  return context;
}

struct ZmqEnv::Sockets {
  zmq::context_t context = with_all_sockets();
  std::optional<ZapHandler> zap;
  zmq::socket_t in{context, zmq::socket_type::router};
  zmq::socket_t in_events;
  Waker in_waker{}, in_events_waker{};
  Doorkeeper door{{.first_bytes = kMaxFrameBytes + (std::uint64_t{1} << 16)}};
  std::map<std::uint32_t, double> told_failed;  ///< handshakes that failed: by reason, when it was said
  NeighbourMemory memory;
  bool memory_woke = false;  ///< something may have happened there
  zmq::message_t asker;      ///< identity of the connection by which the frame that is being handled came
  std::vector<std::unique_ptr<Out>> out;
  /// With locks: by name the connection over which that peer has proved to have spoken last; what a
  /// connection calls itself says nothing.
  std::map<std::string, std::string> diallers;

  /// Null: there is no connection yet.
  Out* to(PeerId peer) const {
    const auto at = std::find_if(out.begin(), out.end(), [&](const auto& o) { return o->peer == peer; });
    return at == out.end() ? nullptr : at->get();
  }
  /// False where it waits, with what follows it (null: nothing). A peer that cannot be reached gets it over
  /// the connection that it made; with locks, once it has spoken over that.
  bool hand_over(Out& to, const std::string& name, bool locked, zmq::message_t& message,
                 zmq::message_t* beside) {
    // ZeroMQ counts whole messages: it takes what follows a part that it took, or lets go of both
    const auto send = [&](zmq::socket_t& socket) {
      constexpr auto kNow = zmq::send_flags::dontwait;
      return send_uninterrupted(socket, message, beside ? kNow | zmq::send_flags::sndmore : kNow) &&
             (!beside || send_uninterrupted(socket, *beside, kNow));
    };
    (to.socket ? to.waker : in_waker).sent = true;
    if (to.socket) return send(to.socket);
    if (to.let_go || to.connect_again) return false;  // it is dialled, and need not read what it has dialled
    const auto dialler = diallers.find(name);
    if (locked && dialler == diallers.end()) return false;
    try {
      zmq::message_t identity(locked ? dialler->second : name);
      return send_uninterrupted(in, identity, zmq::send_flags::sndmore | zmq::send_flags::dontwait) &&
             send(in);
    } catch (const zmq::error_t& error) {
      if (error.num() == EHOSTUNREACH) return false;  // it has not dialled yet, or has gone
      throw;
    }
  }
  /// Frames for peers that cannot be reached wait: nothing tells when these take them.
  bool waits_for_dialler() const {
    return std::any_of(out.begin(), out.end(), [](const auto& o) { return !o->socket && !o->queue.empty(); });
  }
  ~Sockets() {
    zmq_socket_monitor(in.handle(), nullptr, 0);
    for (auto& o : out) zmq_socket_monitor(o->socket.handle(), nullptr, 0);
  }
};

}  // namespace gossamer::node
