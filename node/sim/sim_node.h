#pragma once
// A Node is one peer of a simulation: its worker, its replica, and the world as they see it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "attackers.h"
#include "simulation.h"

namespace gossamer::node {

class Simulation::Node final : public MemberEnv, public DataPlane {
 public:
  /// start: as of Seat.
  Node(Simulation& sim, PeerId self, std::unique_ptr<optim::Objective> objective, std::uint64_t start)
      : sim_(sim), self_(self), start_(start) {
    WorkerSpec first = spec(sim, self, start);
    MemberSpec all = members(sim, self, first, start);
    member_.emplace(std::move(all), *this, std::move(first));
    replica_.emplace(
        make_replica(sim.prepared_, self, std::move(objective), 1, attack_of(sim.prepared_.job, self)));
    replica_->observe(sim.observer_);
    const Job& job = sim.prepared_.job;
    step_time_ = job.sim.step_time * sim.profile_.slowness(self) *
                 static_cast<double>(job.peers[self].batch) / static_cast<double>(job.batch);
  }

  // Env
  double now() const override { return sim_.now_; }
  void wake_at(double time) override {
    if (!std::isfinite(time)) return;
    time = std::max(time, sim_.now_);
    if (time >= wake_at_ && wake_at_ >= sim_.now_) return;
    wake_at_ = time;
    sim_.at(time, self_, [this, time] {
      if (wake_at_ != time) return;
      wake_at_ = -1;
      if (sim_.now_ > time)
        return wake_at(sim_.now_);  // was paused: reads what waits before it judges silence
      on([](Member& m) { m.on_timer(); });
    });
  }
  State leave_view() override {
    sim_.threads_.finish(queue_);
    ++view_;
    failure_.reset();
    failure_told_ = false;
    return replica_->save_learned();
  }
  WorkerSpec enter_view(const View& view, double share) override {
    const std::shared_ptr<const Prepared> prepared = sim_.prepared_for(view);
    const PeerId seat = find_peer(prepared->job, sim_.prepared_.names[self_], "view");
    WorkerSpec s = view_worker_spec(*prepared, seat, start_ + view_, view.id() + view.attempt, share);
    s.may_diverge = !honest(sim_.prepared_.job, self_);
    s.least_resend_s = kLeastResend_s;
    s.grace_s = sim_.faults_.grace_s;
    replica_.emplace(make_replica(*prepared, seat, make_objective(*prepared, seat), 1,
                                  attack_of(sim_.prepared_.job, self_)));
    if (sim_.on_view) sim_.on_view(self_, sim_.now_, view, share);
    return s;
  }
  void send(PeerId to, FrameBytes frame, std::uint32_t priority) override {
    sim_.deliver(self_, to, std::move(frame), priority);
  }
  std::size_t backlog(PeerId to) const override { return sim_.wire(self_, to).parcels; }
  DataPlane& data() override { return *this; }
  void report(const Report& r) override {
    if (sim_.on_report) sim_.on_report(self_, sim_.now_, r);
    if (self_ == 0 && !r.test) sim_.check_consensus();
  }
  void log(const std::string& line) override {
    if (sim_.on_log) sim_.on_log(self_, sim_.now_, line);
  }

  // DataPlane: answers come after the time that the floats would take
  void submit(Op op) override {
    if (!answers(op))
      return sim_.threads_.add(queue_, [this, o = std::move(op)] {
        guarded([&] { replica_->run(o, [](const DataEvent&) { assert(false); }); });
      });
    compute(sim_.now_, [this, o = std::move(op), now = sim_.now_](Answers& out) {
      replica_->run(o, [&](DataEvent e) { out.emplace_back(now, std::move(e)); });
    });
  }
  void submit(Gradient gradient) override {
    if (gradient.idle)
      return compute(sim_.now_, [this, g = std::move(gradient), now = sim_.now_](Answers& out) {
        replica_->run(
            g, [&](DataEvent e) { out.emplace_back(now, std::move(e)); }, [] {});
      });
    const double labelling = step_time_ * kForwardShare * static_cast<double>(gradient.soft.models.size());
    const double duration = step_time_ * (1 + sim_.prepared_.job.sim.step_jitter * (2 * sim_.uniform() - 1));
    const double begin = sim_.now_ + labelling + duration * kForwardShare,
                 rest = duration * (1 - kForwardShare);
    const auto layers = static_cast<double>(std::max<std::size_t>(1, sim_.prepared_.layers_of(self_).size()));
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
  void restore(const State& state, Kept kept) override { replica_->restore(state, kept); }
  void saved(State state) override { saved_ = std::move(state); }
  bool may_checkpoint() const override { return writing_ == 0; }
  void checkpoint(State state, const SavePoint& point) override {
    SimCheckpoints& all = *sim_.faults_.checkpoints;
    all.taken[self_].emplace_back(point.name, member_->rounds());
    ++writing_;
    sim_.at(sim_.now_ + all.write_s, self_, [this, &all, name = point.name, s = std::move(state)]() mutable {
      --writing_;
      const bool full = std::count(all.full.begin(), all.full.end(), self_) > 0;
      if (!full) all.kept[name][self_] = std::move(s);
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
  const Replica& replica() {
    sim_.threads_.finish(queue_);
    return *replica_;
  }
  Replica& settled() {
    sim_.threads_.finish(queue_);
    return *replica_;
  }
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
  bool crashed() const { return crashed_; }
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
    return s;
  }
  static WorkerSpec spec(const Simulation& sim, PeerId self, std::uint64_t start) {
    WorkerSpec s = worker_spec(sim.prepared_, self, start, 0);
    s.may_diverge = !honest(sim.prepared_.job, self);
    s.least_resend_s = kLeastResend_s;
    s.observer = sim.observer_;
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

  using Answers = std::vector<std::pair<double, DataEvent>>;  ///< and when each is due

  /// Commands without an answer need not be waited for.
  static bool answers(const Op& op) {
    return !std::holds_alternative<op::Update>(op) && !std::holds_alternative<op::Combine>(op) &&
           !std::holds_alternative<op::DecodeAdd>(op) && !std::holds_alternative<op::Aggregate>(op) &&
           !std::holds_alternative<op::PushRows>(op);
  }
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
                     if (view == view_) on([&](Member& m) { m.on_data(e); });
                   }});
      };
      for (auto& [time, event] : *out) post(time, std::move(event));
      if (failure_ && !failure_told_) post(due, *failure_);
      failure_told_ = failure_.has_value();
    });
  }

  Simulation& sim_;
  PeerId self_;
  std::uint64_t start_;
  std::optional<Member> member_;
  std::optional<Replica> replica_;
  std::uint64_t view_ = 0;  ///< so many are over
  SimThreads::Queue queue_;
  std::optional<Failed> failure_;  // written by the threads, read when the queue is finished
  bool failure_told_ = false;
  std::size_t unanswered_ = 0;  ///< commands, and answers that are on their way
  std::optional<State> saved_;
  int writing_ = 0;  ///< checkpoints
  double step_time_ = 0, wake_at_ = -1, ended_at_ = 0;
  bool crashed_ = false;
};

}  // namespace gossamer::node
