#pragma once
// EventLog keeps the last events of a run as lines to read: time, peer, event, what it was about.
#include <deque>
#include <string>

#include "observer.h"

namespace gossamer::node {

class EventLog final : public Observer {
 public:
  /// Keeps the newest `most` lines; names: of the peers.
  EventLog(std::vector<std::string> names, std::size_t most) : names_(std::move(names)), most_(most) {}
  const std::deque<std::string>& lines() const { return lines_; }

  void on_time(double time) override { time_ = time; }
  void on_frame(Fate, PeerId from, PeerId to, std::span<const std::byte> frame) override;
  void on_crash(PeerId peer) override { add(peer, "crashes"); }
  void on_round(PeerId peer, Round round) override;
  void on_message(PeerId peer, PeerId from, const Message& m) override;
  void on_used(PeerId peer, PeerId from, const Message& m) override;
  void on_mixed(PeerId peer, Round round, ParcelId parcel) override;
  void on_end(PeerId peer, const std::string& message) override;
  void on_op(PeerId peer, const Op& op, const DataView&) override;

 private:
  void add(PeerId peer, const std::string& event);

  std::vector<std::string> names_;
  std::size_t most_;
  double time_ = 0;
  std::deque<std::string> lines_;
};

}  // namespace gossamer::node
