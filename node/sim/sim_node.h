#pragma once
// A Node is one peer of a simulation: its worker, its replica, and the world as they see it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "attackers.h"
#include "simulation.h"
#include "view_run.h"

namespace gossamer::node {

class Simulation::Node final : public MemberEnv, public DataPlane {
 public:
  /// start: as of Seat.
  Node(Simulation& sim, PeerId self, const std::shared_ptr<optim::Model>& model, std::uint64_t start)
      : sim_(sim), self_(self), teller_(*this) {
    const Job& job = sim.prepared_.job;
    step_time_ = job.sim.step_time * sim.profile_.slowness(self) *
                 static_cast<double>(job.peers[self].batch) / static_cast<double>(job.batch);
    begin(model, start);
  }
  /// One that joins the run of that peer.
  Node(Simulation& sim, PeerId self, PeerId asked, std::uint64_t start)
      : sim_(sim), self_(self), teller_(*this) {
    step_time_ = sim.job_.sim.step_time * sim.profile_.slowness(self);
    begin_joining(asked, start);
  }
  /// A process that has nothing, in place of the one before it. model: as of make_objective.
  void begin(const std::shared_ptr<optim::Model>& model, std::uint64_t start) {
    begin_process(start);
    WorkerSpec first = spec(sim_, self_, start);
    epochs_.enter(sim_.prepared_, 0, 0);
    View view;
    for (const std::string& name : sim_.prepared_.names) view.seats.push_back({name, 0});
    if (ViewObserver* views = sim_.faults_.view_observer) views->on_start(self_, start);
    Observer* observer = observe({view, first.share_before, sim_.prepared_, first.rounds_before});
    first.observer = observer;
    MemberSpec all = members(sim_, self_, first, start);
    member_.emplace(std::move(all), *this, std::move(first));
    replica_.emplace(make_replica(sim_.prepared_, self_,
                                  make_objective(sim_.prepared_, self_, model, false, course_), 1,
                                  attack_of(sim_.prepared_.job, self_)));
    replica_->observe(observer);
  }
  /// The same, of one that the job does not name.
  void begin_joining(PeerId asked, std::uint64_t start) {
    begin_process(start);
    prepared_ = sim_.prepared_for({sim_.job_.peers[self_].name});
    if (ViewObserver* views = sim_.faults_.view_observer) views->on_start(self_, start);
    MemberSpec all = joining_spec(sim_.prepared_, sim_.contact_of(self_), start,
                                  worker_spec(sim_.prepared_, 0, start, 0).job_id, sim_.contact_of(asked));
    all.swim.seed ^= sim_.faults_.seed;
    all.limits_speakers = false;
    member_.emplace(std::move(all), *this, std::nullopt);
    replica_.emplace(make_replica(*prepared_, 0, make_objective(*prepared_, 0, nullptr, false, course_), 1,
                                  attack_of(sim_.job_, self_)));
  }

  // MemberEnv
  void met(PeerId peer, const Contact& contact) override {
    const auto names = sim_.job_.peer_names();
    const auto at = std::find(names.begin(), names.end(), contact.name);
    assert(at != names.end());
    others_[peer] = static_cast<PeerId>(at - names.begin());
  }

  // Env
  double now() const override { return sim_.profile_.clock(self_, sim_.now_); }
  void wake_at(double time) override {
    if (!std::isfinite(time)) return;
    time = std::max(sim_.profile_.when(self_, time), sim_.now_);
    if (time >= wake_at_ && wake_at_ >= sim_.now_) return;
    wake_at_ = time;
    sim_.at(time, self_, [this, time] {
      if (wake_at_ != time) return;
      wake_at_ = -1;
      if (sim_.now_ > time) return wake_at(now());  // was paused: reads what waits before it judges silence
      on([](Member& m) { m.on_timer(); });
    });
  }
  State leave_view(const View& view) override {
    end_plane();
    State learned = replica_->save_for_next_view(view.incarnations(), gradient_told_);
    if (ViewObserver* views = sim_.faults_.view_observer)
      views->on_leave(self_, member_->share_done(), parameters_in(learned));
    return learned;
  }
  WorkerSpec enter_view(const View& view, double share) override {
    const std::shared_ptr<const Prepared> prepared =
        with_former(sim_.prepared_for(view.names()), view.former);
    const PeerId seat = find_peer(prepared->job, sim_.job_.peers[self_].name, "view");
    WorkerSpec s = view_worker_spec(*prepared, seat, start_ + view_, view.id() + view.attempt, share);
    s.epochs_before = epochs_.enter(*prepared, share);
    s.observer = observe({view, share, *prepared, s.rounds_before});
    s.may_diverge = !honest(sim_.job_, self_);
    s.least_resend_s = kLeastResend_s;
    set_saves(s, prepared->job, false, true);
    s.grace_s = sim_.faults_.grace_s;
    replica_.emplace(make_replica(*prepared, seat,
                                  make_objective(*prepared, seat, nullptr, false, course_, s.rounds_before),
                                  1, attack_of(sim_.job_, self_)));
    replica_->observe(s.observer);
    prepared_ = prepared;
    if (sim_.on_view) sim_.on_view(self_, sim_.now_, view, share);
    return s;
  }
  void merging(const std::vector<std::pair<std::string, double>>& weights) override {
    std::vector<std::pair<PeerId, double>> all;
    for (const auto& [name, weight] : weights) all.emplace_back(find_peer(sim_.job_, name, "view"), weight);
    if (ViewObserver* views = sim_.faults_.view_observer) views->on_merge(self_, all);
  }
  void send(PeerId to, FrameBytes frame, std::uint32_t priority) override {
    sim_.deliver(self_, place_of(to), std::move(frame), priority);
  }
  std::size_t backlog(PeerId to) const override { return sim_.wire(self_, place_of(to)).parcels; }
  DataPlane& data() override { return *this; }
  void report(const Report& r) override {
    if (sim_.on_report) sim_.on_report(self_, sim_.now_, r);
    if (self_ == 0 && !r.test) sim_.check_consensus();
  }
  void member_changed(const MemberEvent& event) override {
    if (sim_.on_member) sim_.on_member(sim_.now_, event);
  }
  void traced(const TraceSpan& span) override {
    if (!sim_.on_trace) return;
    TraceSpan virtual_span = span;
    virtual_span.begin_s = sim_.profile_.when(self_, span.begin_s);
    virtual_span.end_s = sim_.profile_.when(self_, span.end_s);
    sim_.on_trace(self_, virtual_span);
  }
  void log(const std::string& line) override {
    if (sim_.on_log) sim_.on_log(self_, sim_.now_, line);
  }

  // DataPlane: answers come after the time that the floats would take
  void submit(Op op) override {
    tell_begin();
    if (!op::may_answer(op))  // nor need be waited for
      return sim_.threads_.add(queue_, [this, o = std::move(op)] {
        guarded([&] { replica_->run(o, [](const DataEvent&) { assert(false); }); });
      });
    compute(sim_.now_, [this, o = std::move(op), now = sim_.now_](Answers& out) {
      replica_->run(o, [&](DataEvent e) { out.emplace_back(now, std::move(e)); });
    });
  }
  void submit(Gradient gradient) override {
    tell_begin();
    if (gradient.idle)
      return compute(sim_.now_, [this, g = std::move(gradient), now = sim_.now_](Answers& out) {
        replica_->run(
            g, [&](DataEvent e) { out.emplace_back(now, std::move(e)); }, [] {});
      });
    gradient_told_ = false;
    const double labelling = step_time_ * kForwardShare * static_cast<double>(gradient.soft.models.size());
    const double step = replica_->has_gradient() ? 0 : step_time_;
    const double duration = step * (1 + sim_.prepared_.job.sim.step_jitter * (2 * sim_.uniform() - 1));
    const double begin = sim_.now_ + labelling + duration * kForwardShare,
                 rest = duration * (1 - kForwardShare);
    const bool named = self_ < sim_.prepared_.job.peers.size();
    const auto layers = static_cast<double>(
        std::max<std::size_t>(1, (named ? sim_.prepared_.layers_of(self_) : sim_.prepared_.layers).size()));
    // done: layers whose gradient stands, the one whose events are posted included
    const auto time = [=](double done) { return begin + rest * std::min(done, layers) / layers; };
    compute(time(1), [this, time, g = std::move(gradient)](Answers& out) {
      double done = 1;
      replica_->run(
          g, [&](DataEvent e) { out.emplace_back(time(done), std::move(e)); }, [&] { ++done; });
    });
  }
  void submit_evaluation(Round round) override {
    compute(sim_.now_, [this, round, now = sim_.now_](Answers& out) {
      replica_->evaluate(round, [&](DataEvent e) { out.emplace_back(now, std::move(e)); });
    });
  }

  void submit_snapshot(Round round) override {
    compute(sim_.now_, [this, round, now = sim_.now_](Answers& out) {
      out.emplace_back(now, Saved{round, std::make_shared<State>(replica_->save())});
    });
  }
  void submit_learned() override {
    compute(sim_.now_, [this, now = sim_.now_](Answers& out) {
      const State learned = replica_->save_learned();
      if (ViewObserver* views = sim_.faults_.view_observer) views->on_copy(self_, parameters_in(learned));
      out.emplace_back(now, learned_bytes(learned));
    });
  }
  void restore(const State& state, Kept kept) override { replica_->restore(state, kept); }
  void saved(SharedState state) override { saved_ = std::move(*state); }
  bool may_checkpoint() const override { return writing_ == 0; }
  void checkpoint(SharedState state, const SavePoint& point) override {
    SimCheckpoints& all = *sim_.faults_.checkpoints;
    all.taken[self_].emplace_back(point.name, member_->rounds());
    ++writing_;
    sim_.at(sim_.now_ + all.write_s, self_,
            [this, &all, name = point.name, s = std::move(state), start = start_]() mutable {
              if (crashed_ || start != start_) return;  // what was not on disk is lost
              --writing_;
              const bool full = std::count(all.full.begin(), all.full.end(), self_) > 0;
              if (!full) all.kept[name][self_] = std::move(*s);
              on([&](Member& m) {
                if (Worker* w = m.worker()) full ? w->on_storage() : w->committed(name);
              });
            });
  }
  State load(Round name) override { return sim_.faults_.checkpoints->kept.at(name).at(self_); }
  std::optional<State> take_saved() { return std::exchange(saved_, std::nullopt); }
  /// No command waits for its answer.
  bool idle() const { return unanswered_ == 0; }

  /// Runs an event on the worker, and counts it out when it ends.
  template <class Action>
  void on(Action&& action) {
    if (gone()) return;
    const bool ran = !member_->finished();
    action(*member_);
    if (ran && member_->finished()) {
      --sim_.running_;
      ended_at_ = sim_.now_;
    }
  }
  void crash() {
    if (!member_->finished()) --sim_.running_;
    crashed_ = true;
    ended_at_ = sim_.now_;
    if (sim_.observer_) sim_.observer_->on_crash(self_);
  }

  const Member& member() const { return *member_; }
  Member& member() { return *member_; }
  /// While views do not change.
  Worker& worker() { return *member_->worker(); }
  /// With all that was submitted done.
  Replica& settled() {
    sim_.threads_.finish(queue_);
    return *replica_;
  }
  const Replica& replica() { return settled(); }
  /// Of the run that has ended: a command that failed after the last answer was used counts as well.
  WorkerResult result() {
    replica();
    WorkerResult r = member_->result();
    if (failure_ && r.outcome == Outcome::finished) {
      r.outcome = Outcome::failed;
      r.message = failure_->what;
    }
    if (crashed_) r.message = "crashed";
    return r;
  }
  /// What a model that learns by key has come to.
  void add_rows(WorkerResult& result, std::uint64_t& digest) {
    optim::Objective& objective = replica_->objective();
    if (!objective.keyed_rows() || result.rounds == 0) return;
    result.figures = all_figures(objective, replica_->parameters(), replica_->rows());
    digest += digest_of(objective.keyed_rows()->table());
  }
  /// Its number of a peer; empty: it has not heard of it.
  std::optional<PeerId> number_of(PeerId place) const {
    if (place < sim_.prepared_.job.peers.size()) return place;
    for (const auto& [number, other] : others_)
      if (other == place) return number;
    return std::nullopt;
  }
  bool crashed() const { return crashed_; }
  std::uint64_t start() const { return start_; }
  bool trains() const { return member_->worker() && member_->worker()->joined(); }
  /// Crashed, or ended and its process has ended too.
  bool gone() const { return crashed_ || (member_->finished() && sim_.now_ > ended_at_ + kLinger_s); }
  double ended_at() const { return ended_at_; }

 private:
  /// The forward pass takes about a third of a gradient's time; parcels become ready over the rest, last
  /// layer first.
  static constexpr double kForwardShare = 1.0 / 3;
  static constexpr double kLeastResend_s = 0.2;
  /// A peer that has ended is still there for so long, so that its last words get through a lossy network.
  static constexpr double kLinger_s = 5;

  static MemberSpec members(const Simulation& sim, PeerId self, const WorkerSpec& first,
                            std::uint64_t start) {
    const Job& job = sim.prepared_.job;
    MemberSpec s = member_spec(job, self, start, first);
    if (!sim.faults_.views) s.min_peers = job.peers.size();
    s.swim.seed ^= sim.faults_.seed;
    s.swim.planted = sim.prepared_.planted;
    s.limits_speakers = false;  // what the network does to frames is not their sender's doing
    return s;
  }
  static WorkerSpec spec(const Simulation& sim, PeerId self, std::uint64_t start) {
    WorkerSpec s = worker_spec(sim.prepared_, self, start, 0);
    s.may_diverge = !honest(sim.prepared_.job, self);
    s.least_resend_s = kLeastResend_s;
    if (sim.faults_.views) set_saves(s, sim.prepared_.job, false, true);
    s.grace_s = sim.faults_.grace_s;
    if (const SimCheckpoints* c = sim.faults_.checkpoints) {
      s.saves = c->saves;
      s.started = start;
      if (c->go_on) s.offers.emplace();
      for (const auto& [name, peers] : c->kept)
        if (c->go_on && peers.contains(self)) s.offers->push_back(name);
      s.membership.ready = !c->go_on;
    }
    return s;
  }

  /// In a view peers have other numbers than the observer knows.
  class Teller final : public Observer {
   public:
    explicit Teller(const Node& node) : node_(node) {}
    void on_rows(PeerId, std::span<const std::uint32_t> rows) override {
      node_.sim_.observer_->on_rows(node_.self_, rows);
    }

   private:
    const Node& node_;
  };

  /// In the simulation, of a peer by its number at the member.
  PeerId place_of(PeerId peer) const {
    const auto other = others_.find(peer);
    return other == others_.end() ? peer : other->second;
  }

  /// Who is told of worker and replica from here on.
  Observer* observe(const ViewObserver::Entry& entry) {
    changes_ = false;
    if (ViewObserver* views = sim_.faults_.view_observer) return views->on_enter(self_, entry);
    if (!sim_.observer_ || entry.view.seats.front().start == 0) return sim_.observer_;
    sim_.observer_->on_view(self_, entry.view.names(), entry.rounds_before);
    return &teller_;
  }
  void tell_begin() {
    ViewObserver* views = sim_.faults_.view_observer;
    if (!views || std::exchange(changes_, true)) return;
    views->on_begin(self_, replica().parameters());
    views->on_begin_with(self_, replica());
  }
  void begin_process(std::uint64_t start) {
    end_plane();
    start_ = start;
    course_ = sim_.faults_.views ? new_course(sim_.job_) : nullptr;
    epochs_ = {};
    crashed_ = false;
    wake_at_ = -1;
    writing_ = 0;
    saved_.reset();
    others_.clear();
  }
  /// What was submitted is done, and nobody hears of it.
  void end_plane() {
    sim_.threads_.finish(queue_);
    ++view_;
    failure_.reset();
    failure_told_ = false;
  }

  using Answers = std::vector<std::pair<double, DataEvent>>;  ///< and when each is due

  /// The first failure is kept until the next answer is due.
  template <class Action>
  void guarded(Action&& action) {
    try {
      action();
    } catch (const std::exception& e) {
      if (!failure_) failure_ = failure(e);
    }
  }
  /// Has the threads compute what is answered from `due` on. The answers take their places among the events
  /// as if they had been posted now, however late they are known.
  void compute(double due, std::function<void(Answers&)> work) {
    ++unanswered_;
    auto out = std::make_shared<Answers>();
    const std::uint64_t view = view_;
    sim_.threads_.add(queue_, [this, out, work = std::move(work)] { guarded([&] { work(*out); }); });
    sim_.at(due, kNetwork, [this, due, out, view, sequence = sim_.next_sequence_] {
      sim_.threads_.finish(queue_);
      --unanswered_;
      if (view != view_) return;  // it is over
      std::uint32_t place = 0;
      const auto post = [&](double time, DataEvent event) {
        ++unanswered_;
        sim_.push({time, sequence, ++place, self_, [this, view, e = std::move(event)] {
                     --unanswered_;
                     if (view != view_) return;
                     gradient_told_ |= std::holds_alternative<GradientDone>(e);
                     on([&](Member& m) { m.on_data(e); });
                   }});
      };
      for (auto& [time, event] : *out) post(time, std::move(event));
      if (failure_ && !failure_told_) post(due, *failure_);
      failure_told_ = failure_.has_value();
    });
  }

  Simulation& sim_;
  PeerId self_;
  std::uint64_t start_ = 0;
  std::shared_ptr<optim::DataCourse> course_{};
  Teller teller_;
  std::shared_ptr<const Prepared> prepared_;  ///< of the view; none: the simulation's
  std::map<PeerId, PeerId> others_{};  ///< that the job does not name: their places, by the member's numbers
  std::optional<Member> member_;
  std::optional<Replica> replica_;
  std::uint64_t view_ = 0;  ///< so many are over
  EpochCount epochs_;
  SimThreads::Queue queue_;
  std::optional<Failed> failure_;  // written by the threads, read when the queue is finished
  bool failure_told_ = false, crashed_ = false;
  std::size_t unanswered_ = 0;  ///< commands, and answers that are on their way
  std::optional<State> saved_;
  int writing_ = 0;  ///< checkpoints
  double step_time_ = 0, wake_at_ = -1, ended_at_ = 0;
  bool changes_ = false;        ///< something was submitted in this view
  bool gradient_told_ = false;  ///< the last one is done by the simulation's time, too
};

}  // namespace gossamer::node
