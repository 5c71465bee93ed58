#pragma once
// A whole run in one thread and in virtual time: the same workers and replicas as in real processes, over a
// simulated network. Deterministic: one seed, and a heap of (time, sequence) events.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "setup.h"
#include "sim_spells.h"
#include "worker.h"

namespace gossamer::node {

struct SimFaults {
  std::uint64_t seed = 1;  ///< of loss, duplication, reordering, strays, garbling, jitter
  std::vector<std::pair<PeerId, double>> crashes;  ///< peer and virtual time at which it stops for good
};

struct SimResult {
  std::vector<WorkerResult> peers;
  double virtual_seconds = 0;  ///< until the last peer ended
  std::uint64_t digest = 0;    ///< XXH3 over all peers' parameters in peer order
};

class Simulation {
 public:
  /// observer: told of all that happens, in this thread; null: nobody.
  Simulation(const Prepared& prepared, SimFaults faults, Observer* observer = nullptr);
  ~Simulation();
  /// Called with every report; peer, virtual time.
  std::function<void(PeerId, double, const Report&)> on_report;
  std::function<void(PeerId, double, const std::string&)> on_log;

  /// Until every worker that has not crashed has ended. `stop` is asked now and then; true ends the run at
  /// once. Throws std::runtime_error where nothing is left to happen and a worker still runs.
  SimResult run(const std::function<bool()>& stop = {});
  std::span<const float> parameters(PeerId peer) const;
  std::span<const float> slot(PeerId peer, Slot slot) const;
  /// Replica::unsent of a peer.
  std::vector<float> unsent(PeerId peer, int feedback) const;

 private:
  class Node;
  struct Event {
    double time;
    std::uint64_t sequence;
    PeerId peer;  ///< that it happens to; kNetwork: to none, so that no pause puts it off
    std::function<void()> action;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
  };
  static constexpr PeerId kNetwork = 0xffffffff;
  void at(double time, PeerId peer, std::function<void()> action);
  void deliver(PeerId from, PeerId to, FrameBytes frame, std::uint32_t priority);
  double uniform();  ///< in [0, 1)
  /// One direction of a link; there is one for each edge, in either direction.
  struct Wire {
    PeerId to;
    double bandwidth, latency;
    bool sending = false;
    std::map<std::uint32_t, std::deque<FrameBytes>> waiting;  ///< by priority
    std::size_t parcels_waiting = 0;                          ///< of priority above 0
  };
  Wire& wire(PeerId from, PeerId to);
  void send_next(PeerId from, PeerId to);
  void arrive(PeerId from, PeerId to, const FrameBytes& frame);
  void arrive_at(double time, PeerId from, PeerId to, const FrameBytes& frame);
  FrameBytes garbled(const FrameBytes& frame);
  void tell(Fate fate, PeerId from, PeerId to, const FrameBytes& frame) const {
    if (observer_) observer_->on_frame(fate, from, to, *frame);
  }

  const Prepared& prepared_;
  SimFaults faults_;
  SimSpells spells_;
  Observer* observer_;
  std::mt19937_64 random_;  // its sequence is fixed by the standard
  double now_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::vector<Wire>> wires_;  ///< [from], ascending by to
  std::vector<std::unique_ptr<Node>> nodes_;
  std::size_t running_ = 0;
};

}  // namespace gossamer::node
