#pragma once
// Simulation is a whole run in one process and in virtual time: the same workers and replicas as in real
// processes, over a simulated network. Deterministic: one seed, and a heap of (time, sequence) events.
// Control code runs in one thread; floats may be computed by several (sim_threads.h), which does not show in
// what comes out.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "faults.h"
#include "member.h"
#include "profile.h"
#include "setup.h"
#include "sim_threads.h"
#include "trace.h"
#include "view_observer.h"

namespace gossamer::node {

/// What the peers of a simulation save, and go on from.
struct SimCheckpoints {
  SaveSpec saves{};
  double write_s = 0;                               ///< that a checkpoint takes until it is on disk
  std::vector<PeerId> full{};                       ///< peers whose disks are full
  std::map<Round, std::map<PeerId, State>> kept{};  ///< by name; on disk
  std::map<PeerId, std::vector<std::pair<Round, Round>>> taken{};  ///< name, and after how many rounds
  bool go_on = false;  ///< from the newest of `kept` that all peers have
};

struct SimFaults {
  std::uint64_t seed = 1;  ///< of loss, duplication, reordering, strays, garbling, jitter, machines and links
  std::vector<std::pair<PeerId, double>> crashes;  ///< peer and virtual time at which its process ends
  std::vector<std::pair<PeerId, double>>
      restarts{};  ///< as what knows nothing, of one that has crashed or ended
  std::vector<std::pair<std::string, double>> joins{};  ///< names that the job does not have, and when they
                                                        ///< come; their numbers go on from its peers'
  bool views = false;  ///< the run goes on without those that are gone, as run.min_peers has it
  SimCheckpoints* checkpoints = nullptr;  ///< null: none are kept
  double grace_s = 0;                     ///< for those of a run that is told to end
  bool breaks = false;  ///< with `views`: the others see connections to a process that ends break
  ViewObserver* view_observer = nullptr;  ///< null: nobody. The Observer then hears of the network alone
};

struct SimResult {
  std::vector<WorkerResult> peers;
  double virtual_seconds = 0;        ///< until the last peer ended
  std::size_t frames_under_way = 0;  ///< that had not arrived when the run ended
  std::uint64_t digest = 0;          ///< XXH3 over all peers' parameters in peer order
};

struct SimProgress {
  double virtual_seconds = 0;
  Round least = 0, most = 0;  ///< rounds finished by the slowest and by the quickest peer
  double share_done = 0;      ///< of the run, by the peer that is or knows least far
  std::size_t joined = 0;     ///< peers that train, or have
};

class Simulation {
 public:
  /// observer: told of all that happens, in this thread; null: nobody. threads: that compute floats, the
  /// caller's included; an observed run has one.
  Simulation(const Prepared& prepared, SimFaults faults, Observer* observer = nullptr,
             std::size_t threads = 1);
  ~Simulation();
  /// Called with every report; peer, virtual time.
  std::function<void(PeerId, double, const Report&)> on_report;
  std::function<void(PeerId, const TraceSpan&)> on_trace;     ///< in virtual time
  std::function<void(double, const MemberEvent&)> on_member;  ///< of one peer, as another sees it
  std::function<void(PeerId, double, const std::string&)> on_log;

  /// A peer enters a view; virtual time, share of the run that is over.
  std::function<void(PeerId, double, const View&, double)> on_view;

  /// Until every worker that has not crashed has ended. `stop` is asked now and then; true ends the run at
  /// once. Throws std::runtime_error where nothing is left to happen and a worker still runs.
  SimResult run(const std::function<bool()>& stop = {});
  /// Runs until every peer has ended so many rounds and holds, and nothing is under way; returns what each
  /// keeps, by peer. They hold until run, or the next save, goes on from there. Throws std::runtime_error
  /// where a peer ends before.
  std::vector<State> save_after(Round rounds);
  /// Before run: goes on where a simulation of the same job had saved. Throws StateError.
  void restore(const std::vector<State>& states);
  /// Before run: begins with what peers had learned in another, say under another number of peers. Throws
  /// StateError.
  void restore_learned(const std::vector<State>& states);
  /// How far the run is; may be asked while it runs, in the thread that runs it.
  SimProgress progress() const;
  /// A peer is told to end, as by a signal.
  void interrupt(PeerId peer, double time);
  /// Where a peer stands; view: that it trains in, null while it agrees on one.
  struct Standpoint {
    bool crashed, finished;
    const View* view;
    std::uint64_t start;
  };
  Standpoint standpoint(PeerId peer) const;
  std::span<const float> parameters(PeerId peer) const;
  std::span<const float> slot(PeerId peer, Slot slot) const;
  /// What the peer learns, as it stands.
  optim::Objective& objective(PeerId peer) const;
  /// What the peer's method keeps beside floats; null: nothing.
  const Extension* extension(PeerId peer) const;
  /// Replica::unsent of a peer.
  std::vector<float> unsent(PeerId peer, int feedback) const;

 private:
  class Node;
  struct Event {
    double time;
    std::uint64_t sequence;
    std::uint32_t place;  ///< among events of one sequence number
    PeerId peer;          ///< that it happens to; kNetwork: to none, so that no pause puts it off
    std::function<void()> action;
    bool operator>(const Event& o) const {
      return std::tie(time, sequence, place) > std::tie(o.time, o.sequence, o.place);
    }
  };
  static constexpr PeerId kNetwork = 0xffffffff;
  void check_states(const std::vector<State>& states) const;
  void begin();
  void go_on();  ///< of peers that hold
  void step();   ///< the next event
  void at(double time, PeerId peer, std::function<void()> action);
  void push(Event event);
  Event pop();
  double awake_at(PeerId peer, double time) const;
  void deliver(PeerId from, PeerId to, FrameBytes frame, std::uint32_t priority);
  double uniform();  ///< in [0, 1)
  /// Ends a run whose peers are driven apart (divergence.h); looks at the honest ones' parameters.
  void check_consensus();
  std::size_t frames_under_way() const;
  /// One direction of a link; there is one for each edge, in either direction.
  struct Wire {
    PeerId to;
    double bandwidth, latency;
    bool sending = false;
    std::map<std::uint32_t, std::deque<FrameBytes>> waiting;  ///< by priority
    std::size_t parcels =
        0;  ///< frames of priority above 0 that have not left, the one that is leaving included
  };
  Wire& wire(PeerId from, PeerId to);
  void crash(PeerId peer);
  void restart(PeerId peer);
  void join(PeerId peer);
  Contact contact_of(PeerId peer) const { return {job_.peers[peer].name, job_.peers[peer].address}; }
  PeerId somebody_there() const;
  std::shared_ptr<const Prepared> prepared_for(const std::vector<std::string>& names);
  void send_next(PeerId from, PeerId to);
  void arrive(PeerId from, PeerId to, const FrameBytes& frame);
  void arrive_at(double time, PeerId from, PeerId to, const FrameBytes& frame);
  FrameBytes garbled(const FrameBytes& frame);
  void tell(Fate fate, PeerId from, PeerId to, const FrameBytes& frame) const {
    if (observer_) observer_->on_frame(fate, from, to, *frame);
  }

  const Prepared& prepared_;
  SimFaults faults_;
  Job job_;  ///< with those that join
  FaultWindows windows_;
  SimProfile profile_;
  Observer* observer_;
  std::mt19937_64 random_;  // its sequence is fixed by the standard
  double now_ = 0;
  double initial_square_;  ///< ‖x⁰‖²
  std::uint64_t next_sequence_ = 0;
  std::vector<Event> events_;             ///< a heap, the earliest in front
  std::vector<std::vector<Wire>> wires_;  ///< [from], ascending by to
  std::vector<double> uplink_free_;       ///< of each peer that has one: when its last frame has passed it
  std::map<std::vector<std::string>, std::shared_ptr<const Prepared>> view_runs_;  ///< by names
  std::vector<std::unique_ptr<Node>> nodes_;
  mutable SimThreads threads_;  // after nodes_: its threads end first
  std::size_t running_ = 0, restarts_ = 0;
  bool begun_ = false;
  std::size_t scheduled_frames_ = 0;  ///< that have left their wire and not arrived
};

}  // namespace gossamer::node
