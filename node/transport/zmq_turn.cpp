// One turn of a ZmqEnv: hands over what waits, sleeps until something happens, and takes in what did.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "send_buffer.h"
#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

constexpr double kLongestPoll_s = 0.2;
constexpr double kPollForDiallers_s = 0.005;
constexpr int kReceiveAtOnce = 256;
/// Where a neighbour's own socket broke and its connection stands: what was under way is lost, and a new
/// connection has it sent again.
constexpr double kConnectAgainAfter_s = 0.5;
constexpr double kMostPatience_s = 5;  ///< with a connection that is being made

/// ZeroMQ reads the bytes where they are, and lets go of them on its own thread.
zmq::message_t in_place(const Payload& bytes) {
  auto* keep = new Payload(bytes);
  return {const_cast<std::byte*>((*keep)->data()), (*keep)->size(),
          [](void*, void* hint) { delete static_cast<Payload*>(hint); }, keep};
}

/// The parts of a message that came, behind the one that says of whom where there is such.
struct Came {
  zmq::message_t first{}, second{};
  int parts = 0;

  /// more: whether anything is to come.
  void receive(zmq::socket_t& from, bool more) {
    zmq::message_t rest;
    for (; more; ++parts) {
      zmq::message_t& part = parts == 0 ? first : parts == 1 ? second : rest;
      if (!receive_uninterrupted(from, part)) break;
      more = part.more();
    }
  }
  /// What stands behind the first, kept as it came.
  Payload beside() {
    if (parts < 2) return {};
    auto message = std::make_shared<zmq::message_t>(std::move(second));
    const auto* bytes = static_cast<const std::byte*>(message->data());
    const std::size_t size = message->size();
    return {std::move(message), {bytes, size}};
  }
};

}  // namespace

/// From when the first of its frames waited until ZeroMQ had taken all.
void ZmqEnv::trace_sent(const Out& out) {
  tick();
  traced({.what = "send",
          .track = TraceSpan::Track::links,
          .begin_s = out.waits_since,
          .end_s = now_,
          .bytes = static_cast<std::int64_t>(out.waited_bytes),
          .to = names_[out.peer]});
}

/// The next frame; false where it waits.
bool ZmqEnv::push(Out& out) {
  const FrameBytes& frame = out.queue.front();
  std::optional<Ticket> ticket;
  if (frame.apart && !(ticket = sockets_->memory.lend(out.peer, *frame.apart)))
    return true;  // the connection broke meanwhile: what was under way is sent again in chunks
  using Sent = NeighbourMemory::Sent;
  const Sent sent =
      frame.beside ? Sent::no : sockets_->memory.send(out.peer, ticket ? &*ticket : nullptr, *frame);
  if (sent == Sent::yes) return true;
  if (sent == Sent::broke) {
    out.way_broke_at = now_;
    if (ticket) return true;  // as above
  }
  if (sent != Sent::waits && hand_over(out, ticket, frame)) return true;
  if (ticket) NeighbourMemory::take_back(*ticket);
  return false;
}

/// To ZeroMQ; false where it takes nothing more.
bool ZmqEnv::hand_over(Out& out, const std::optional<Ticket>& ticket, const FrameBytes& frame) {
  zmq::message_t message, beside;
  const bool whole = frame.beside && frame.beside->size() > kChunkBytes;
  if (whole && out.connection >= 0)  // whole it goes where the link is fast
    limit_send_buffer(std::exchange(out.connection, -1));
  if (ticket) {
    message.rebuild(sizeof *ticket + frame->size());
    std::memcpy(message.data(), &*ticket, sizeof *ticket);
    std::memcpy(message.data<std::byte>() + sizeof *ticket, frame->data(), frame->size());
  } else {
    message = in_place(frame);
  }
  if (frame.beside) beside = in_place(frame.beside);
  return sockets_->hand_over(out, names_[out.peer], spec_.locks.has_value(), message,
                             frame.beside ? &beside : nullptr);
}

/// Hands frames on while they are taken.
void ZmqEnv::push_all() {
  const bool shows_first = spec_.locks && spec_.locks->certificate;
  for (auto& out : sockets_->out) {
    if (shows_first && out->socket && !out->stands)
      continue;  // what came before its certificate would be lost
    while (!out->queue.empty() && !out->full) {
      if (!push(*out)) {
        out->full = static_cast<bool>(out->socket);  // else nothing tells when it takes more
        break;
      }
      out->queue.pop();
      if (trace && out->queue.empty()) trace_sent(*out);
    }
  }
}

/// A message that came, starting at a multiple of 8 or not; false: it is no frame of one who may speak.
bool ZmqEnv::take(Member& member, std::span<const std::byte> bytes, const Payload& beside,
                  const std::string* speaker) {
  Payload apart;
  if (const auto ticket = NeighbourMemory::ticket_of(bytes)) {
    apart = sockets_->memory.read(*ticket);
    if (!apart) {  // its sender has ended, or is none that lends
      member.on_frame({}, speaker);
      return true;
    }
    bytes = bytes.subspan(sizeof *ticket);
  }
  std::vector<std::uint64_t> aligned;  // small messages lie inside the message object, often not on 8 bytes
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) != 0) {
    aligned.resize((bytes.size() + 7) / 8);
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    bytes = {reinterpret_cast<const std::byte*>(aligned.data()), bytes.size()};
  }
  return member.on_frame(bytes, speaker, apart, beside);
}

bool ZmqEnv::receive_all(Member& member) {
  const auto take_message = [&](Came& came, const std::string* speaker) {
    const int fd = zmq_msg_get(came.first.handle(), ZMQ_SRCFD);
    sockets_->door.heard(fd, speaker, now_);
    const bool whole = came.parts == 1 || (came.parts == 2 && came.second.size() > 0);
    const std::span bytes(static_cast<const std::byte*>(came.first.data()), whole ? came.first.size() : 0);
    if (!take(member, bytes, whole ? came.beside() : Payload(), speaker) && !spec_.locks)
      sockets_->door.damaged(fd, now_);  // with locks ZeroMQ itself ends such a connection
  };
  if (spec_.bind.empty()) {  // answers come over the connections that this peer made
    for (std::size_t k = 0; k < sockets_->out.size(); ++k)
      for (int count = 0; count < kReceiveAtOnce && sockets_->out[k]->waker.woke; ++count) {
        Came came;
        zmq::socket_t& from = sockets_->out[k]->socket;
        if (!from || !receive_uninterrupted(from, came.first, zmq::recv_flags::dontwait)) {
          sockets_->out[k]->waker.woke = false;
          break;
        }
        came.parts = 1;
        came.receive(from, came.first.more());
        const std::string speaker = names_[sockets_->out[k]->peer];
        take_message(came, spec_.locks ? &speaker : nullptr);
      }
    return true;
  }
  for (int count = 0; count < kReceiveAtOnce && sockets_->in_waker.woke; ++count) {
    zmq::message_t& identity = sockets_->asker;
    Came came;
    if (!receive_uninterrupted(sockets_->in, identity, zmq::recv_flags::dontwait)) {
      sockets_->in_waker.woke = false;
      break;
    }
    came.receive(sockets_->in, identity.more());
    std::optional<std::string> speaker;
    if (spec_.locks) {
      speaker = speaker_of(came.first, came.parts);
      if (!speaker) {  // counted there
        turn_away(came.first);
        std::erase_if(sockets_->diallers,
                      [&](const auto& d) { return d.second == identity.to_string_view(); });
        continue;
      }
      sockets_->diallers[*speaker] = identity.to_string();
    }
    take_message(came, speaker ? &*speaker : nullptr);
  }
  return !sockets_->in_waker.woke;
}

/// What is sent to make a connection is lost on its way, and TCP tries that ever more rarely: who comes late
/// would wait for a minute.
void ZmqEnv::dial_anew(Out& out) {
  const bool was_there = out.was_there;
  dial(out.peer);
  out.was_there = was_there;
  out.patience = std::min(2 * out.patience, kMostPatience_s);
}

void ZmqEnv::read_monitors(Member& member) {
  let_go_of_idle();
  if (std::exchange(sockets_->in_events_waker.woke, false))
    while (const auto event = next_event(sockets_->in_events)) watch_door(*event, member);
  for (const std::string& line : sockets_->door.take_news()) log(line);
  if (spec_.locks)
    for (const std::string& line : gate_news()) log(line);
  for (std::size_t k = 0; k < sockets_->out.size(); ++k) {  // a member that hears of it may open connections
    Out& out = *sockets_->out[k];
    if (out.way_broke_at && now_ >= *out.way_broke_at + kConnectAgainAfter_s) {
      out.way_broke_at.reset();
      out.connect_again |= out.stands;
    }
    if (std::exchange(out.connect_again, false)) {
      const bool stood = out.stands;
      dial(out.peer);
      if (stood) member.on_broken(out.peer);
    }
    if (out.socket && out.connection < 0 && !out.stands && now_ >= out.event_at + out.patience)
      dial_anew(out);
    if (!std::exchange(out.events_waker.woke, false)) continue;
    while (const auto event = out.events ? next_event(out.events) : std::nullopt) {
      out.event_at = now_;
      if (event->number == ZMQ_EVENT_CONNECTED) {
        sockets_->door.dialled(static_cast<int>(event->value), now_);
        out.connection = static_cast<int>(event->value);
        if (spec_.shared_memory)
          sockets_->memory.connected(out.peer, static_cast<int>(event->value), spec_.addresses[out.peer]);
      }
      if (event->number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) came_up(out);
      if (event->number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) say_refused(out);
      if (event->number == ZMQ_EVENT_DISCONNECTED) {
        sockets_->door.closed(static_cast<int>(event->value));
        out.connection = -1;
        sockets_->memory.broken(out.peer);
        out.way_broke_at.reset();
        if (spec_.locks && !out.stands) try_next_key(out);
        out.stands = false;
        member.on_broken(out.peer);
      }
      // a first try to come back has failed at once: nothing listens there
      if (event->number == ZMQ_EVENT_CLOSED && std::exchange(out.was_there, false))
        member.on_refused(out.peer);
    }
  }
}

void ZmqEnv::look_after_sends() {
  const auto look = [](Waker& waker, zmq::socket_t& socket) {
    if (std::exchange(waker.sent, false)) waker.woke |= (events_uninterrupted(socket) & ZMQ_POLLIN) != 0;
  };
  look(sockets_->in_waker, sockets_->in);
  for (auto& out : sockets_->out)
    if (spec_.bind.empty() && out->socket) look(out->waker, out->socket);
}

bool ZmqEnv::wait(double seconds) {
  std::vector<Waker*> wakers{&sockets_->in_waker, &sockets_->in_events_waker};
  for (auto& out : sockets_->out)
    if (out->socket) wakers.insert(wakers.end(), {&out->waker, &out->events_waker});
  std::vector<pollfd> polled{{data_->event_fd(), POLLIN, 0}};
  for (const Waker* waker : wakers) polled.push_back({waker->fd, POLLIN, 0});
  sockets_->memory.watch(polled);
  const bool at_once = std::any_of(wakers.begin(), wakers.end(), [](const Waker* w) { return w->woke; });
  const int most = at_once ? 0 : static_cast<int>(seconds * 1000 + 0.999);
  if (::poll(polled.data(), polled.size(), most) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
    return false;
  }
  for (std::size_t i = 0; i < wakers.size(); ++i) wakers[i]->woke |= polled[1 + i].revents != 0;
  sockets_->memory_woke = sockets_->memory.notice(std::span(polled).subspan(1 + wakers.size()));
  return polled[0].revents != 0;
}

void ZmqEnv::look_at_memory(Member& member, bool all_read) {
  for (auto& out : sockets_->out) out->full = false;  // perhaps: who is asked says so again
  const auto readers = sockets_->memory.look(now_, all_read, [&](std::span<const std::byte> message) {
    sockets_->asker.rebuild();  // who speaks here is answered by number
    return take(member, message, {}, nullptr);
  });
  for (const PeerId reader : readers)
    log(fmt::format("{} runs on this machine, and reads large messages in memory", names_[reader]));
}

void ZmqEnv::poll(Member& member, double until) {
  push_all();
  look_after_sends();
  const bool computed = wait(std::clamp(std::min(until, sockets_->door.next_look()) - now_, 0.0,
                                        sockets_->waits_for_dialler() ? kPollForDiallers_s : kLongestPoll_s));
  tick();
  const bool only_dials = spec_.bind.empty();  // then answers come over the connections that it made
  const bool judges = now_ >= sockets_->door.next_look();
  for (auto& out : sockets_->out) {
    if (!(out->waker.woke || judges) || !out->socket) continue;
    events_uninterrupted(out->socket);
    out->full = false;
    out->waker.woke = only_dials;
  }
  if (only_dials && sockets_->in_waker.woke) events_uninterrupted(sockets_->in);
  sockets_->in_waker.woke = !only_dials && (sockets_->in_waker.woke || judges);
  read_monitors(member);
  const bool all_read = receive_all(member);
  if (sockets_->memory_woke || sockets_->memory.looks_after()) look_at_memory(member, all_read);
  // what came while this peer was at something else has been read before it is judged
  if (all_read || now_ > sockets_->door.next_look() + 1) sockets_->door.look(now_);
  const LiveDataPlane* plane = data_.get();
  if (computed)
    for (const DataEvent& e : data_->take_events())
      if (data_.get() == plane) member.on_data(e);  // else the view that it is of is over
  if (now_ >= wake_at_) member.on_timer();
}

}  // namespace gossamer::node
