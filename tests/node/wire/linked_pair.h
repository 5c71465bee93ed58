#pragma once
// Two links and a network between them that loses, copies and reorders.
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gossamer_test/catch.h"
#include "link.h"

namespace gossamer::node::test {

struct Faults {
  double loss = 0, duplicate = 0, reorder = 0;
};

/// Two links over a network with faults, in virtual time. Frames travel as bytes.
class Pair {
 public:
  /// share: how the first end's payloads can be read where they are.
  Pair(Faults faults, std::uint64_t seed, double least_resend_s = 0.2, const Link::Share& share = {})
      : faults_(faults),
        random_(seed),
        ends_{Link(sender(0), least_resend_s, Delivery::reliable, {}, {}, share),
              Link(sender(1), least_resend_s)} {}

  Link& end(int e) { return ends_[e]; }
  double now() const { return now_; }
  std::size_t frames_sent() const { return frames_sent_; }

  void send(int from, std::uint64_t round, std::size_t bytes) {
    auto payload = std::make_shared<std::vector<std::byte>>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) (*payload)[i] = static_cast<std::byte>(i * 31 + round);
    ends_[from].send({round, 1, 2, bytes, payload}, now_);
  }
  /// Lets time pass; both ends resend and acknowledge as a worker does. Messages that came are kept in got.
  void pass(double seconds) {
    const double until = now_ + seconds;
    while (now_ < until) {
      now_ += kTick;
      while (!wire_.empty() && wire_.begin()->first <= now_) arrive();
      for (int e = 0; e < 2; ++e) {
        if (silent[e]) continue;
        ends_[e].resend_due(now_, false);
        if (ends_[e].owes_acknowledgement()) acknowledge(e);
      }
    }
  }

  std::vector<Message> got[2];
  bool silent[2] = {false, false};  ///< neither resends nor acknowledges
  bool use_at_once = true;          ///< messages are consumed as they come
  double latency = 0.015;

 private:
  static constexpr double kTick = 0.01;

  Link::Send sender(int from) {
    return [this, from](Frame frame, std::uint32_t) {
      frame.header = ends_[from].stamp(frame.header);
      return put(from, frame);
    };
  }
  void acknowledge(int from) {
    Frame frame;
    frame.header = ends_[from].stamp({});
    put(from, frame);
  }
  std::size_t put(int from, const Frame& frame) {
    ++frames_sent_;
    const FrameBytes bytes = encode_frame(frame, frames_sent_ % 3 != 0);
    if (uniform() < faults_.loss) return bytes.size();
    for (int copies = uniform() < faults_.duplicate ? 2 : 1; copies > 0; --copies) {
      const double late = uniform() < faults_.reorder ? 0.2 * uniform() : 0;
      wire_.emplace(now_ + latency + late, std::pair(1 - from, bytes));
    }
    return bytes.size();
  }
  void arrive() {
    const auto [to, bytes] = wire_.begin()->second;
    wire_.erase(wire_.begin());
    auto frame = decode_frame(*bytes, bytes.beside);
    REQUIRE(frame);
    ends_[to].acknowledged(frame->header, now_);
    auto* parcel = std::get_if<ParcelBody>(&frame->body);
    if (!parcel) return;
    if (bytes.apart) parcel->payload = *bytes.apart, parcel->apart = bytes.apart;
    ends_[to].receive(frame->header, *parcel);
    while (auto m = ends_[to].next()) {
      if (use_at_once) ends_[to].consume(m->sequence);
      got[to].push_back(std::move(*m));
    }
  }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  Faults faults_;
  std::mt19937_64 random_;
  Link ends_[2];
  std::multimap<double, std::pair<int, FrameBytes>> wire_;
  double now_ = 0;
  std::size_t frames_sent_ = 0;
};

/// Rounds 0, 1, 2 … once each, payloads as they were sent.
inline bool in_order(const std::vector<Message>& got, std::size_t count) {
  if (got.size() != count) return false;
  for (std::size_t k = 0; k < count; ++k) {
    if (got[k].round != k || got[k].parcel != 1 || got[k].tag != 2) return false;
    if (got[k].payload->size() != got[k].entries) return false;
    for (std::size_t i = 0; i < got[k].payload->size(); ++i)
      if ((*got[k].payload)[i] != static_cast<std::byte>(i * 31 + k)) return false;
  }
  return true;
}

}  // namespace gossamer::node::test
