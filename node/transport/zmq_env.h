#pragma once
// ZmqEnv is the real world of one peer: ZeroMQ sockets, the clock, a compute thread. All but the floats runs
// on the caller's thread; ZeroMQ has one I/O thread.
//
// In: one ROUTER that the others connect to. Out: one DEALER a neighbour, so that a full connection is seen
// on that link alone. A DEALER holds a few frames at most (its high-water mark); the rest wait here, ordered
// by priority. A peer that only dials out has no ROUTER that others reach: they answer it through theirs, by
// its name, over the connection that it made, and it reads these.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data_plane.h"
#include "locks.h"
#include "member.h"
#include "resolver.h"

namespace zmq {
class message_t;
}

namespace gossamer::node {

struct SocketEvent;
struct Ticket;

struct ZmqSpec {
  std::string bind;                    ///< tcp://host:port or tcp://*:port; host may be an interface; a port
                                       ///< that is * is any free one. Empty: it only dials out
  std::vector<std::string> addresses;  ///< of all peers; those of the links are connected to
  /// A neighbour may be silent for so long; a connection that is dead by ZeroMQ's own signs is then no news.
  double silence_timeout_s = 0;
  std::string name{};            ///< of a peer that only dials out: by this the others answer it
  std::optional<Locks> locks{};  ///< none: connections are plain, and anyone may speak in any name
  bool shared_memory = true;     ///< neighbours of this machine read large payloads where they are
};

/// Sockets of one peer. Throws ConfigError where it cannot listen (port in use, no such address or host).
class ZmqEnv final : public MemberEnv {
 public:
  explicit ZmqEnv(const ZmqSpec& spec);
  ~ZmqEnv() override;

  std::shared_ptr<Trace> trace;  ///< what takes how long; null: it is not told
  std::function<void(const Report&)> on_report;
  std::function<void(const std::string&)> on_log;
  std::function<void(const MemberEvent&)> on_member;
  /// Fills in what the job says.
  std::function<void(StatusBody&)> on_status;
  /// Told how many peers share this machine's cores; gives the threads that this one takes.
  std::function<std::size_t(const CoreSharing&)> on_sharing;
  std::function<void(Worker&)> on_turn;  ///< after whatever happened, while there is one
  /// What a peer is in a view, and its data plane; share: of the run that is over.
  std::function<std::pair<WorkerSpec, DataPlaneFactory>(const View&, double share)> on_view;
  std::function<std::string(const View&)> on_why_not;  ///< as of MemberEnv::why_not
  std::function<void(const SharedState&)> on_saved;
  // Where checkpoints are kept: as of Env.
  std::function<bool()> on_may_checkpoint;
  std::function<void(SharedState, const SavePoint&)> on_checkpoint;
  std::function<State(Round)> on_load;
  std::function<void(const View&, Round, double, const State&)> on_keep_learned;  ///< as of MemberEnv

  /// Once: makes the member and its first worker and runs it until it has ended and its last frames are out;
  /// closes all connections, which may have taken all the files that this process can open. `stop` is asked a
  /// few times a second and after every signal; true interrupts the run. state: where the worker and its data
  /// plane go on; null: at the beginning.
  WorkerResult run(MemberSpec member, std::optional<WorkerSpec> spec, const DataPlaneFactory& make_data_plane,
                   const std::function<bool()>& stop, const State* state = nullptr, Kept kept = Kept::all);
  /// With locks, on run's thread: these rules hold from now on, and peers are known by these keys.
  void change_access(AccessList access, std::map<std::string, std::vector<PublicKey>> keys);
  /// Where this peer listens, by address.
  const std::string& endpoint() const { return endpoint_; }
  /// Of a peer of the run that has been, by the numbers of its result.
  const std::string& name_of(PeerId peer) const { return names_[peer]; }
  /// After run: the peer's parameters.
  std::span<const float> parameters() const;
  /// As of LiveDataPlane, after run.
  LiveDataPlane& plane() const { return *data_; }

  double now() const override { return now_; }
  void wake_at(double time) override { wake_at_ = time; }
  void send(PeerId to, FrameBytes frame, std::uint32_t priority) override;
  bool takes_parts() const override { return true; }
  Payload share(PeerId to, const Payload& payload) override;
  std::size_t backlog(PeerId to) const override;
  std::size_t queued_bytes(PeerId to) const override;
  std::uint64_t dropped_control() const override { return dropped_control_; }
  DataPlane& data() override { return *data_; }
  void met(PeerId peer, const Contact& contact) override;
  void answer(FrameBytes frame) override;
  std::string why_not(const View& view) override { return on_why_not ? on_why_not(view) : std::string(); }
  State leave_view(const View& view) override;
  WorkerSpec enter_view(const View& view, double share) override;
  void member_changed(const MemberEvent& event) override {
    if (on_member) on_member(event);
  }
  /// At most ten a second are answered, whoever asks.
  void answer(std::uint64_t number, const std::function<StatusBody()>& status) override;
  void share_cores(const CoreSharing& sharing) override {
    if (on_sharing) data_->use_threads(on_sharing(sharing));
  }
  void saved(SharedState state) override {
    if (on_saved) on_saved(std::move(state));
  }
  bool may_checkpoint() const override { return !on_may_checkpoint || on_may_checkpoint(); }
  void checkpoint(SharedState state, const SavePoint& point) override {
    if (on_checkpoint) on_checkpoint(std::move(state), point);
  }
  void keep_learned(const View& view, Round round, double share, const State& learned) override {
    if (on_keep_learned) on_keep_learned(view, round, share, learned);
  }
  State load(Round name) override { return on_load ? on_load(name) : Env::load(name); }
  void traced(const TraceSpan& span) override;
  void report(const Report& r) override {
    if (on_report) on_report(r);
  }
  void log(const std::string& line) override {
    if (on_log) on_log(line);
  }

 private:
  struct Sockets;
  struct Out;
  void connect(PeerId to);
  void came_up(Out& out);
  void say_refused(Out& out);
  void try_next_key(Out& out);
  void dial(PeerId to);
  void dial_anew(Out& out);
  void turn_away(zmq::message_t& body);
  void hang_up(Out& out);
  void let_go_of_idle();
  void loop(Member& member, const std::function<bool()>& stop);
  void flush_queues(Member& member);
  void poll(Member& member, double until);
  /// Until something happens to a socket or in the data plane: true there.
  bool wait(double seconds);
  void look_after_sends();
  /// True where nothing more waits.
  bool receive_all(Member& member);
  std::optional<std::string> speaker_of(zmq::message_t& body, int parts);
  std::vector<std::string> gate_news();
  void push_all();
  bool push(Out& out);
  bool hand_over(Out& out, const std::optional<Ticket>& ticket, const FrameBytes& frame);
  bool take(Member& member, std::span<const std::byte> bytes, const Payload& beside,
            const std::string* speaker);
  void look_at_memory(Member& member, bool all_read);
  void trace_sent(const Out& out);
  void read_monitors(Member& member);
  void watch_door(const SocketEvent& event, Member& member);
  void watch_joining(const Member& member);
  std::string what_kept_them_away() const;
  void tick();

  ZmqSpec spec_;
  std::string endpoint_;
  std::vector<std::string> names_{};  ///< of the peers, by number
  std::unique_ptr<Sockets> sockets_;
  std::unique_ptr<LiveDataPlane> data_;
  std::chrono::steady_clock::time_point begin_;
  double now_ = 0, wake_at_ = 0;
  std::uint64_t dialled_ = 0;  ///< so that names of monitors differ
  std::uint64_t dropped_control_ = 0;
  double told_full_ = -1e9;              ///< when it was said last that no more sockets are to be had
  double answers_ = 0, answers_at_ = 0;  ///< that may be given, as of then
  std::unique_ptr<Resolver> resolver_;   ///< until all have joined
  std::map<std::string, std::string> lost_names_{};  ///< its failures, as last logged
  std::uint64_t files_ = 0;  ///< above 0: so many were open while peers joined, and no more could be
};

}  // namespace gossamer::node
