#pragma once
// Worker is one peer's control: it joins, trains round by round, notices who is gone, serves the others until
// all are done. A state machine without threads, sockets, clock or files: events in, calls on Env out.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "divergence.h"
#include "env.h"
#include "exchange.h"
#include "gossamer/compress/payload_check.h"
#include "link.h"
#include "membership.h"
#include "observer.h"
#include "pace.h"
#include "samples.h"
#include "saver.h"
#include "stall.h"

namespace gossamer::node {

struct WorkerSpec {
  Plan plan;
  MembershipSpec membership;
  std::uint64_t job_id = 0;  ///< frames of another job are dropped
  Place place{};             ///< none: this peer asks nobody where they are, and waits for no answer
  std::uint64_t rounds = 0;
  /// Above 0: how far the run is goes by the samples of all peers (samples.h), and these end it; `rounds` is
  /// then the length of schedules alone.
  double total_samples = 0;
  double rounds_per_epoch = 1;
  std::optional<double> epochs_before{};  ///< of the run before its first round here; none: by that round
  double learning_rate = 0;               ///< for messages
  std::size_t classes = 0;                ///< of the data
  bool may_diverge = false;               ///< an attacker, whose own figures say nothing
  std::uint64_t evaluate_every = 0;       ///< rounds between test evaluations by this peer; 0 = none
  double report_every_s = 0.5;
  double drain_timeout_s = 60;
  double stall_timeout_s = 0;  ///< a wait in one round that ends the run; 0 = none does
  SaveSpec saves{};
  double grace_s = 0;         ///< in which a peer that is interrupted saves; 0: it does not
  std::uint64_t started = 0;  ///< by this machine's clock, as of Offers; 0: there are no offers
  /// From which checkpoints it can go on: from the newest that all peers can. None: it begins as it is.
  std::optional<std::vector<Round>> offers{};
  Round rounds_before = 0;  ///< that the run had had before its first round here; the samples of that time
  double share_before = 0;  ///< are this share of total_samples
  std::uint64_t samples_before = 0;  ///< that this peer has taken in, and share_before does not count
  bool of_view = false;              ///< it begins when its own neighbours are here; else when all are
  std::uint64_t skip_limit = 3;      ///< skipped steps in a row at which this peer diverges; 0: none
  std::uint64_t mute_after = 3;      ///< payloads that do not decode at which a neighbour is muted; 0: none
  double least_resend_s = 30;    ///< patience before a frame is resent; TCP resends by itself while it stands
  Observer* observer = nullptr;  ///< told of what this peer does; outlives the worker
};

struct WorkerResult {
  Outcome outcome = Outcome::running;
  std::string message;            ///< empty where finished
  std::uint64_t checkpoints = 0;  ///< taken
  double checkpoint_pause_s = 0;  ///< for which the training held for them, together
  bool diverged = false;          ///< this peer's training ran away, or another's, as it told
  bool others_gone = false;       ///< it ended because others have gone, or did not come
  std::vector<PeerId> gone;       ///< those that are known to have
  std::uint64_t rounds = 0;
  std::uint64_t rows = 0;  ///< samples seen
  /// Of these, what no checkpoint held from which it went on: seconds and bytes are of them alone.
  std::uint64_t rounds_here = 0, rows_here = 0;
  std::uint64_t dense_rounds_here = 0;  ///< of those, in exchange.dense_rounds
  double train_loss = 0;                ///< mean over the last epoch's steps, as many as there were
  double seconds = 0;                   ///< from the first round's start to the last round's end
  double waited_s = 0;                  ///< of these, after a round's gradient stood until the round was over
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  std::uint64_t left_out = 0;  ///< messages that could not be used (ExchangeHost::count_left_out)
  LinkCounters traffic;        ///< over all links
  std::vector<std::pair<PeerId, RefusalCounts>> refused;  ///< by neighbour, where there were any
  std::uint64_t dense_data_bytes = 0;  ///< of traffic.data_bytes_out, in exchange.dense_rounds
  optim::Figures figures{};  ///< of the peer's own model, where it learns by key; filled in by who runs it
  std::uint64_t dropped_frames = 0;     ///< of strangers, other jobs, old epochs; malformed ones
  std::uint64_t skipped_steps = 0;      ///< their loss, or something of their gradient, was not finite
  std::vector<std::string> muted;       ///< neighbours, by name: their payloads did not decode
  std::uint64_t closed_without = 0;     ///< rounds that took too long, and ended with what had come
  std::uint64_t idle_steps = 0;         ///< local steps that it left to its neighbours
  std::uint64_t held_back = 0;          ///< messages left out because their neighbour's queue was full
  std::uint64_t queued_bytes_most = 0;  ///< held for one neighbour at a time: not acknowledged, or not sent
  std::uint64_t dropped_control = 0;    ///< control frames that newer ones replaced before they could leave
};

/// Adds what a worker before it had come to: counts, times, bytes; not how it ended.
void add_earlier(WorkerResult& now, const WorkerResult& before);

class Worker final : public ExchangeHost {
 public:
  Worker(WorkerSpec spec, Env& env);

  void start();
  /// bytes: that it took; none: they are no frame.
  void on_frame(const std::optional<Frame>& frame, std::size_t bytes);
  void on_data(const DataEvent& event);
  void on_timer();
  /// The connection to a neighbour broke (it may come back).
  void on_broken(PeerId link);
  /// Ends cleanly, telling the others (Ctrl-C); with a checkpoint that all have, as far as grace_s allows,
  /// or, where they go on without it (SaveSpec::leave), when nothing is under way.
  void interrupt();
  /// The checkpoint of that name is on disk.
  void committed(Round name);
  /// The best checkpoint so far, as of another one: of the peer that evaluates. That of a view before is what
  /// its peers know already, and is not told.
  void judge(Round best, Round as_of);
  /// Env::may_checkpoint has become true.
  void on_storage() { settle(); }
  /// The newest checkpoint that all peers have; the best one.
  std::optional<Round> saved_by_all() const;
  std::optional<Round> best_saved() const;
  /// Ends because training ran away; the others learn it. what: as of divergence.h.
  void diverge(const std::string& what);

  /// No other worker of the run has it.
  std::uint64_t number() const { return spec_.membership.epoch; }
  /// Begins no further round once so many have ended, until it is told to go on. A peer that holds still
  /// takes what comes and answers.
  void hold_after(Round rounds) {
    hold_at_ = rounds - std::min(rounds, spec_.rounds_before);
    if (ahead_) hold_at_ = std::max(*hold_at_, *ahead_ + 1);
  }
  /// It does, awaits nothing, and all that it sent has been received: where that is so of all peers and their
  /// data planes have answered, the run is in what each of them keeps, and nothing is under way.
  bool holds() const;
  void resume();
  /// The view is over when the round that is under way is: no other begins. ends: false takes that back.
  void end_after_round(bool ends);
  /// It is, and all that others need for it has been sent.
  bool round_is_over() const { return phase_ != Phase::training || last_round_ended_ || flushed_; }
  /// The view is over: the step that is being computed is taken, and counts as a round, though what the
  /// others send of that round is not waited for; no other begins.
  void wind_up();
  /// There is no such step, or it has been taken.
  bool wound_up() const { return phase_ != Phase::training || held_ || last_round_ended_; }
  /// A gradient is; also where the run has ended for this peer, and it is computed to its end.
  bool computing() const { return computing_; }
  /// What rounds took lately.
  double mean_round_s() const { return lately_rounds_ > 0 ? lately_s_ / lately_rounds_ : 0; }
  /// Of the run that is over when that step has been taken, as far as it goes by rounds.
  double share_after_step() const;
  /// Of this peer in this view, where the run goes by samples; else 0. As a share of the run:
  std::uint64_t own_samples() const { return samples_ ? spec_.samples_before + result_.rows : 0; }
  double own_share() const { return samples_ ? static_cast<double>(own_samples()) / spec_.total_samples : 0; }
  double share_before() const { return spec_.share_before; }
  /// While it holds: Env::saved is called with what it keeps.
  void save();
  /// Before start: goes on where this peer of the same job had saved. Throws StateError.
  void restore(const State& state);
  /// Of a peer that frames were exchanged with in a run's first view, its start as members know it; 0: not
  /// known.
  std::uint64_t start_of(PeerId peer) const;
  /// Before start: begins with what a peer had learned, where rounds_before and share_before say.
  void restore_learned(const State& state) { env_.data().restore(state, Kept::learned); }

  /// It cannot go on before something comes from that neighbour.
  bool waits_for(PeerId link) const;
  /// The neighbour is not known to have gone.
  bool reachable(PeerId peer) const { return members_.reachable(peer); }
  bool finished() const { return result_.outcome != Outcome::running; }
  bool joined() const { return phase_ != Phase::joining; }
  /// It came to its first round.
  bool began() const { return started_ > 0; }
  Round rounds() const { return spec_.rounds_before + std::max(round_, result_.rounds); }  ///< finished
  /// Of the run that is over, as far as this peer knows; at most 1.
  double share_done() const;
  WorkerResult result() const;
  std::uint64_t dropped_frames() const { return result_.dropped_frames; }
  /// Frames of another one are of another view, or run.
  std::uint64_t job_id() const { return spec_.job_id; }
  const PeerStates& states() const { return members_.all(); }
  const std::vector<PeerId>& links() const { return members_.links(); }
  /// How many rounds ago the neighbour's newest message that was used is of; empty: none was.
  std::optional<Round> staleness_of(PeerId link) const;

  // ExchangeHost
  const Plan& plan() const override { return spec_.plan; }
  double place(Round round) const override;
  void submit(Op op) override { env_.data().submit(std::move(op)); }
  void send(PeerId to, Message message) override;
  void consumed(PeerId from, const Message& message) override;
  bool can_send(PeerId to, ParcelId parcel) const override;
  void mixed(ParcelId parcel, std::optional<Round> through) override;
  bool goes_ahead(Round next) override;
  void saw_staleness(Round rounds) override;
  void count_left_out() override { ++result_.left_out; }
  void count_held_back() override { ++result_.held_back; }
  void count_closed_without() override { ++result_.closed_without; }
  bool ends_alone() const override { return winding_up_; }
  bool trained() const override { return samples_ ? samples_->complete() : round_ == spec_.rounds; }
  bool gone(PeerId peer) const override { return gone_[peer] || muted(peer); }

 private:
  enum class Phase { joining, training, draining, over };

  void handle(const FrameHeader& header, const AliveBody& body);
  void handle(const FrameHeader& header, const PlacesBody& body);
  void handle(const FrameHeader& header, const HelloBody& body);
  void handle(const FrameHeader& header, const ParcelBody& body);
  // these come in no link's name
  void handle(const FrameHeader&, const SwimBody&) {}
  void handle(const FrameHeader&, const WantBody&) {}
  void handle(const FrameHeader&, const PieceBody&) {}
  void handle(const FrameHeader&, const QueryBody&) {}
  void handle(const FrameHeader&, const AnswerBody&) {}
  void handle(const FrameHeader&, const OfferBody&) {}
  void handle(const FrameHeader&, const AskBody&) {}
  void handle(const FrameHeader&, const TermsBody&) {}
  void handle(const ParcelReady& e);
  void handle(const Encoded& e);
  void handle(const GradientDone& e);
  void handle(const Evaluated& e);
  void handle(const Measured& e);
  void handle(const Saved& e);
  void handle(const Failed& e);
  void handle(const Learned&) {}  // the member's

  /// Acts on what changed: starts, ends rounds, finishes; called at the end of every event.
  void settle();
  void begin_round();
  void archive(Archive archive);
  void end_round();
  void end_step_alone();
  void count_own_samples();
  void count_step(const GradientDone& e);
  bool must_hold() const;
  /// The round that is under way, or is next, or a later one of which something has been told.
  Round told_up_to() const { return std::max(round_, ahead_.value_or(0)); }
  /// Something of the round told_up_to has been, or will be before this peer can rest.
  bool tells() const { return phase_ == Phase::training && (!held_ || ahead_ >= round_); }
  void advance_save();
  void taken(Round name);
  bool looked_at(Round name);
  void flush();
  bool written_or_late();
  bool waits_for_save(const Message& message) const;
  void deliver_set_aside();
  bool at_rest() const;
  void check_ending();
  void go_on_from_offers();
  SavePoint save_point(Round name) const;
  void drain();
  void check_members();
  void check_diverged(const std::string& what) {
    if (!what.empty() && !spec_.may_diverge) diverge(what);
  }
  void join_overdue();
  void check_stalled();
  void check_overdue();
  void begin_at_pace(Gradient& gradient);
  void end(Outcome outcome, std::string message, PeerStatus as = PeerStatus::left);
  void end_without_others(std::string message);
  bool heard(const FrameHeader& header);
  void send_hello(PeerId to);
  void send_alive(PeerId to);
  void send_places(PeerId to);
  void broadcast_alive();
  void spread_news(double after_s);
  AliveBody signs_of_life();
  void count_samples();
  std::string where() const;
  std::string awaited() const;
  double samples_after() const;
  double epoch() const;
  Round all_rounds() const { return spec_.rounds_before + spec_.rounds; }
  void deliver(PeerId from, Message message);
  IntakeRules intake_rules(PeerId from);
  Verdict judge(PeerId from, const ParcelBody& body) const;
  bool decodes(const Message& message, bool shared);
  void name_refusals(PeerId from, const RefusalCounts& before, const ParcelBody& body);
  /// What comes in the neighbour's name is not read any more.
  bool muted(PeerId peer) const { return links_.contains(peer) && links_[peer]->muted(); }
  void mute_where_due(PeerId from);
  /// Bytes that the neighbour has not acknowledged, or that have not left.
  std::size_t queued_for(PeerId to) const { return links_[to]->bytes_outstanding() + env_.queued_bytes(to); }
  /// Of every step; diverges where too many in a row were skipped.
  void count_skipped(bool skipped);
  /// Why the run cannot go on, of what is known of the others; empty where it can.
  std::string what_others_said() const;
  /// A neighbour has ended because it could not use what came in this peer's name.
  bool says_muted(const AliveBody& body) const;
  void end_as_muted(PeerId by);
  std::size_t transmit(PeerId to, Frame frame, std::uint32_t priority);
  void report(const std::optional<optim::Figures>& test);
  void schedule_wake();
  Link& link(PeerId peer) { return *links_[peer]; }
  bool best_effort() const { return spec_.plan.exchange.delivery == "best_effort"; }
  /// All neighbours have heard this peer, and it them.
  bool in_touch() const { return members_.status(spec_.membership.self) >= PeerStatus::present; }

  WorkerSpec spec_;
  Env& env_;
  Membership members_;
  Places places_;
  std::optional<Samples> samples_;  ///< where the run goes by them
  ByPeer<std::unique_ptr<Link>> links_;
  ByPeer<std::optional<Round>> used_;  ///< the round of the newest message used
  std::unique_ptr<Exchange> exchange_;
  compress::PayloadCheck payload_check_;
  WorkerResult result_;
  Phase phase_ = Phase::joining;

  Round round_ = 0, first_round_ = 0;  ///< first: of this start
  std::uint64_t first_rows_ = 0;       ///< seen before it
  std::optional<Round> hold_at_;
  std::optional<Round> ahead_;  ///< the last round of which something was told before it began
  bool held_ = false;
  bool winding_up_ = false;
  bool ends_after_round_ = false, flushing_ = false;
  bool flushed_ = false;  ///< of that round: what was submitted before has been answered
  Saver saver_;
  std::deque<std::pair<PeerId, Message>> set_aside_;  ///< in the order in which they came
  Offers offers_;
  bool snapshot_asked_ = false;        ///< by save
  std::optional<Round> saving_;        ///< the checkpoint whose snapshot is under way
  Round look_at_ = 0, looked_at_ = 0;  ///< before which checkpoint a look at ‖x‖ was asked for, and answered
  double held_since_ = 0;
  double save_by_ = 0;            ///< what cannot be written by then is passed over; 0: nothing waits
  std::optional<double> end_by_;  ///< it was interrupted
  optim::Figures tested_;         ///< of the newest evaluation since the last checkpoint
  std::optional<Round> resumed_;  ///< from which checkpoint
  Round through_ = 0;             ///< the least round that the parcels that are mixed are final for
  std::size_t unmixed_ = 0;
  std::vector<bool> gone_;  ///< by peer: had done its rounds, and has ended
  bool gradient_done_ = false, computing_ = false;
  DivergenceWatch watch_;
  StallWatch stall_;
  std::optional<Pace> pace_;           ///< where stragglers are not waited for
  std::uint64_t steps_ = 0;            ///< of this exchange's local ones
  std::optional<double> overdue_at_;   ///< the round, unless it has been told
  std::uint64_t skipped_running_ = 0;  ///< steps in a row, up to the last
  Round measure_at_ = 0;               ///< the next round that begins with a look at ‖x‖
  bool last_measured_ = false;         ///< ‖x‖ after the last round has been looked at
  bool last_round_ended_ = false;
  double round_began_ = 0, round_took_ = 0;
  double computed_ = 0;                      ///< when the last gradient stood
  double lately_s_ = 0, lately_rounds_ = 0;  ///< what rounds took lately, and how many they were
  double next_evaluation_ = 0;               ///< in rounds, as place
  double started_ = 0, drain_until_ = 0;
  std::string other_session_;  ///< a neighbour's name under which another run's peer was heard
  bool news_ = false;          ///< something is known that the neighbours were not told yet
  double next_hello_ = 0, next_alive_ = 0, acknowledge_at_ = 0;
  double next_counts_ = 0;  ///< when all samples are told again, in case that news was lost

  std::deque<double> recent_losses_;  ///< of the last epoch's steps
  double staleness_sum_ = 0;
  std::uint64_t staleness_count_ = 0;
  struct Since {  ///< since the last report
    double time = 0, loss = 0;
    std::uint64_t steps = 0, rows = 0, bytes_out = 0, bytes_in = 0;
    Round staleness = 0;
  } since_;
};

}  // namespace gossamer::node
