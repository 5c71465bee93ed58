#pragma once
// A hostile host on the way: it stands where peers are listed, passes on whatever comes for them, and before
// each of a neighbour's messages says wrong ones in that neighbour's name.
#include <zmq.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forge.h"

namespace gossamer::node::test {

class ForgingRelay {
 public:
  /// From 127.0.0.1:(listed + k) to 127.0.0.1:(real + k), for `peers` of them. Before each message come
  /// `copies` wrong ones of these kinds, drawn.
  ForgingRelay(std::uint16_t listed, std::uint16_t real, std::size_t peers, std::vector<Forgery> kinds,
               std::size_t copies, std::uint64_t seed)
      : context_(zmq_ctx_new()), kinds_(std::move(kinds)), copies_(copies), random_(seed) {
    for (std::size_t k = 0; k < peers; ++k) {
      const auto at = [&](std::uint16_t first) { return "tcp://127.0.0.1:" + std::to_string(first + k); };
      ways_.push_back({open(ZMQ_ROUTER), open(ZMQ_DEALER)});
      if (zmq_bind(ways_[k].in, at(listed).c_str()) != 0 || zmq_connect(ways_[k].out, at(real).c_str()) != 0)
        throw std::runtime_error(zmq_strerror(zmq_errno()));
    }
    thread_ = std::thread([this] { run(); });
  }
  ~ForgingRelay() {
    over_ = true;
    thread_.join();
    for (const Way& w : ways_) zmq_close(w.in), zmq_close(w.out);
    zmq_ctx_term(context_);
  }
  ForgingRelay(const ForgingRelay&) = delete;
  ForgingRelay& operator=(const ForgingRelay&) = delete;

  std::uint64_t forged() const { return forged_; }

 private:
  struct Way {
    void *in, *out;
  };

  void* open(int type) {
    void* socket = zmq_socket(context_, type);
    constexpr int kAtOnce = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &kAtOnce, sizeof kAtOnce);
    return socket;
  }

  void run() {
    std::vector<zmq_pollitem_t> items;
    for (const Way& w : ways_) items.push_back({w.in, 0, ZMQ_POLLIN, 0});
    while (!over_) {
      zmq_poll(items.data(), static_cast<int>(items.size()), 20);
      for (std::size_t k = 0; k < items.size(); ++k)
        if (items[k].revents) pass_on(ways_[k]);
    }
  }

  /// All that waits: who sends it, a frame, and perhaps its payload.
  void pass_on(const Way& way) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    std::vector<Payload> parts;
    while (zmq_msg_recv(&part, way.in, ZMQ_DONTWAIT) >= 0) {
      const auto* bytes = static_cast<const std::byte*>(zmq_msg_data(&part));
      parts.push_back(std::make_shared<const std::vector<std::byte>>(bytes, bytes + zmq_msg_size(&part)));
      if (zmq_msg_more(&part) != 0) continue;
      const FrameBytes frame(parts.at(1), {}, parts.size() > 2 ? parts[2] : Payload());
      for (std::size_t c = 0; c < copies_; ++c)
        if (const FrameBytes wrong = forged_from(frame)) say(way, wrong), ++forged_;
      say(way, frame);
      parts.clear();
    }
    zmq_msg_close(&part);
  }
  FrameBytes forged_from(const FrameBytes& frame) {
    const auto whole = frame.beside ? decode_frame(*frame, frame.beside) : std::nullopt;
    return node::forged(whole ? encode_frame(*whole) : frame, kinds_[random_() % kinds_.size()], random_);
  }
  /// Waits for a peer that is busy, but not for one that has gone.
  void say(const Way& way, const FrameBytes& frame) {
    say(way, *frame, frame.beside ? ZMQ_SNDMORE : 0);
    if (frame.beside) say(way, *frame.beside, 0);
  }
  void say(const Way& way, std::span<const std::byte> bytes, int flags) {
    while (!over_ && zmq_send(way.out, bytes.data(), bytes.size(), ZMQ_DONTWAIT | flags) < 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void* context_;
  std::vector<Way> ways_;
  std::vector<Forgery> kinds_;
  std::size_t copies_;
  std::mt19937_64 random_;
  std::atomic<std::uint64_t> forged_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace gossamer::node::test
