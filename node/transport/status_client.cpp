#include "status_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "frame.h"
#include "gossamer/node/errors.h"
#include "listening.h"
#include "machine.h"
#include "uninterrupted.h"
#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

constexpr int kAskAgain_ms = 1000, kLongestWait_ms = 100;
constexpr int kSeen = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                      ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                      ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_CLOSED;

std::string version_text(std::uint16_t version) { return fmt::format("{}.{}", version >> 8, version & 255); }

/// One question, over a connection of its own.
class Asker {
 public:
  Asker(std::string address, const std::optional<ClientKeys>& keys)
      : address_(std::move(address)), keys_(keys) {
    if (keys_) lock(socket_, *keys_->own, &keys_->server);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::immediate, true);
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxFrameBytes));
    socket_.set(zmq::sockopt::ipv6, has_ipv6());
    const char* events = "inproc://asker";
    if (zmq_socket_monitor(socket_.handle(), events, kSeen) != 0) throw zmq::error_t();
    events_.set(zmq::sockopt::linger, 0);
    events_.connect(events);
    try {
      socket_.connect(address_);
    } catch (const zmq::error_t& error) {
      throw ConfigError(fmt::format("{}: {}; expected where a peer listens, such as tcp://127.0.0.1:7001",
                                    address_, error.what()));
    }
  }
  ~Asker() { zmq_socket_monitor(socket_.handle(), nullptr, 0); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  /// Empty until an answer is there.
  std::optional<StatusBody> turn() {
    zmq::pollitem_t items[] = {{socket_.handle(), 0, ZMQ_POLLIN, 0}, {events_.handle(), 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, kLongestWait_ms);
    read_events();
    if (stands_) ask();
    zmq::message_t message;
    while (receive_uninterrupted(socket_, message, zmq::recv_flags::dontwait))
      if (auto answer = read(message)) return answer;
    return std::nullopt;
  }

  std::runtime_error no_answer(double timeout_s) const {
    const std::string why =
        was_unknown_ ? fmt::format("the peer does not let in {}", text_of(keys_->own->public_key))
        : asked_at_  ? fmt::format("no answer within {:.4g} s (--timeout); is it busy, or no peer", timeout_s)
        : was_accepted_ && keys_
            ? fmt::format("what listens there is no peer whose public key is {}", text_of(keys_->server))
        : was_accepted_ ? "what listens there is no peer of a run, or lets in none without a key (#PUBLICKEY "
                          "behind its address)"
        : was_refused_  ? "nothing listens there"
                        : fmt::format("no connection within {:.4g} s (--timeout)", timeout_s);
    return std::runtime_error(fmt::format("{}: {}", address_, why));
  }
  bool hopeless() const {
    return !stands_ && !asked_at_ && (was_turned_away_ || (was_refused_ && !was_accepted_));
  }

 private:
  using Clock = std::chrono::steady_clock;

  void read_events() {
    zmq::message_t event, address;
    while (receive_uninterrupted(events_, event, zmq::recv_flags::dontwait) &&
           receive_uninterrupted(events_, address)) {
      std::uint16_t number = 0;
      if (event.size() >= sizeof number) std::memcpy(&number, event.data(), sizeof number);
      if (number == ZMQ_EVENT_CONNECTED) was_accepted_ = true;
      if (number == ZMQ_EVENT_CLOSED) was_refused_ = true;
      if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) stands_ = true;
      if (number == ZMQ_EVENT_DISCONNECTED) was_turned_away_ = !std::exchange(stands_, false);
      if (number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) was_unknown_ = was_turned_away_ = true;
      if (number == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        was_turned_away_ = true;
    }
  }

  void ask() {
    if (asked_at_ && Clock::now() < *asked_at_ + std::chrono::milliseconds(kAskAgain_ms)) return;
    FrameHeader header;
    header.sender = kNoPeer;
    const FrameBytes frame = encode_frame({header, QueryBody{kNumber}});
    if (keys_ && keys_->certificate) show(socket_, *keys_->certificate);
    zmq::message_t copy(frame->data(), frame->size());
    if (send_uninterrupted(socket_, copy, zmq::send_flags::dontwait)) asked_at_ = Clock::now();
  }

  std::optional<StatusBody> read(const zmq::message_t& message) const {
    std::vector<std::uint64_t> aligned((message.size() + 7) / 8);
    std::memcpy(aligned.data(), message.data(), message.size());
    auto frame = decode_frame({reinterpret_cast<const std::byte*>(aligned.data()), message.size()});
    if (!frame) return std::nullopt;
    if (frame->header.version >> 8 != kWireVersion >> 8)
      throw std::runtime_error(fmt::format("{}: wire version: here {}, at the peer {}", address_,
                                           version_text(kWireVersion), version_text(frame->header.version)));
    auto* answer = std::get_if<AnswerBody>(&frame->body);
    if (!answer || answer->number != kNumber) return std::nullopt;
    return std::move(answer->status);
  }

  static constexpr std::uint64_t kNumber = 1;  // a connection asks one thing
  std::string address_;
  const std::optional<ClientKeys>& keys_;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer}, events_{context_, zmq::socket_type::pair};
  bool stands_ = false, was_accepted_ = false, was_refused_ = false, was_turned_away_ = false,
       was_unknown_ = false;
  std::optional<Clock::time_point> asked_at_;
};

}  // namespace

StatusBody ask_status(const std::string& address, const std::optional<ClientKeys>& keys, double timeout_s,
                      const std::function<bool()>& stop) {
  Asker asker(address, keys);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (std::chrono::steady_clock::now() < end && !asker.hopeless() && !(stop && stop()))
    if (auto answer = asker.turn()) return *answer;
  throw asker.no_answer(timeout_s);
}

}  // namespace gossamer::node
