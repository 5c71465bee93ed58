#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "attackers.h"
#include "forge.h"
#include "gossamer/compress/feedback.h"
#include "hash.h"
#include "method.h"

namespace gossamer::node {
namespace {

/// The forward pass takes about a third of a gradient's time; parcels become ready over the rest, last layer
/// first.
constexpr double kForwardShare = 1.0 / 3;
constexpr double kLeastResend_s = 0.2;
/// A peer that has ended is still there for so long, so that its last words get through a lossy network.
constexpr double kLinger_s = 5;

}  // namespace

/// One peer: its worker, its replica, and the world as they see it.
class Simulation::Node final : public Env, public DataPlane {
 public:
  Node(Simulation& sim, PeerId self, std::shared_ptr<optim::Objective> objective)
      : sim_(sim),
        self_(self),
        worker_(spec(sim, self), *this),
        replica_(make_replica(sim.prepared_, self, std::move(objective), false, 1,
                              attack_of(sim.prepared_.job, self))) {
    replica_.observe(sim.observer_);
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
      on([](Worker& w) { w.on_timer(); });
    });
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
        guarded([&] { replica_.run(o, [](const DataEvent&) { assert(false); }); });
      });
    compute(sim_.now_, [this, o = std::move(op), now = sim_.now_](Answers& out) {
      replica_.run(o, [&](DataEvent e) { out.emplace_back(now, std::move(e)); });
    });
  }
  void submit(Gradient gradient) override {
    const double labelling = step_time_ * kForwardShare * static_cast<double>(gradient.soft.models.size());
    const double duration = step_time_ * (1 + sim_.prepared_.job.sim.step_jitter * (2 * sim_.uniform() - 1));
    const double begin = sim_.now_ + labelling + duration * kForwardShare,
                 rest = duration * (1 - kForwardShare);
    const auto layers = static_cast<double>(sim_.prepared_.layers_of(self_).size());
    // done: layers whose gradient stands, the one whose events are posted included
    const auto time = [=](double done) { return begin + rest * std::min(done, layers) / layers; };
    compute(time(1), [this, time, g = std::move(gradient)](Answers& out) {
      double done = 1;
      replica_.run(
          g, [&](DataEvent e) { out.emplace_back(time(done), std::move(e)); }, [&] { ++done; });
    });
  }
  void submit_evaluation(Round round) override {
    compute(sim_.now_, [this, round, now = sim_.now_](Answers& out) {
      replica_.evaluate(round, [&](DataEvent e) { out.emplace_back(now, std::move(e)); });
    });
  }

  /// Runs an event on the worker, and counts it out when it ends.
  template <class Action>
  void on(Action&& action) {
    if (gone()) return;
    const bool ran = !worker_.finished();
    action(worker_);
    if (ran && worker_.finished()) {
      --sim_.running_;
      ended_at_ = sim_.now_;
    }
  }
  void crash() {
    if (!worker_.finished()) --sim_.running_;
    crashed_ = true;
    ended_at_ = sim_.now_;
    if (sim_.observer_) sim_.observer_->on_crash(self_);
  }

  const Worker& worker() const { return worker_; }
  /// With all that was submitted done.
  const Replica& replica() {
    sim_.threads_.finish(queue_);
    return replica_;
  }
  /// Of the run that has ended: a command that failed after the last answer was used counts as well.
  WorkerResult result() {
    replica();
    WorkerResult r = worker_.result();
    if (failure_ && r.outcome == Outcome::finished) {
      r.outcome = Outcome::failed;
      r.message = failure_->what;
    }
    if (crashed_) r.message = "crashed";
    return r;
  }
  bool crashed() const { return crashed_; }
  /// Crashed, or ended and its process has ended too.
  bool gone() const { return crashed_ || (worker_.finished() && sim_.now_ > ended_at_ + kLinger_s); }
  double ended_at() const { return ended_at_; }

 private:
  static WorkerSpec spec(const Simulation& sim, PeerId self) {
    WorkerSpec s = worker_spec(sim.prepared_, self, self + 1, 0);
    s.may_diverge = !honest(sim.prepared_.job, self);
    s.least_resend_s = kLeastResend_s;
    s.observer = sim.observer_;
    return s;
  }

  using Answers = std::vector<std::pair<double, DataEvent>>;  ///< and when each is due

  /// Commands without an answer need not be waited for.
  static bool answers(const Op& op) {
    return !std::holds_alternative<op::Update>(op) && !std::holds_alternative<op::Combine>(op) &&
           !std::holds_alternative<op::DecodeAdd>(op) && !std::holds_alternative<op::Aggregate>(op);
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
    auto out = std::make_shared<Answers>();
    sim_.threads_.add(queue_, [this, out, work = std::move(work)] { guarded([&] { work(*out); }); });
    sim_.at(due, kNetwork, [this, due, out, sequence = sim_.next_sequence_] {
      sim_.threads_.finish(queue_);
      std::uint32_t place = 0;
      const auto post = [&](double time, DataEvent event) {
        sim_.push({time, sequence, ++place, self_,
                   [this, e = std::move(event)] { on([&](Worker& w) { w.on_data(e); }); }});
      };
      for (auto& [time, event] : *out) post(time, std::move(event));
      if (failure_ && !failure_told_) post(due, *failure_);
      failure_told_ = failure_.has_value();
    });
  }

  Simulation& sim_;
  PeerId self_;
  Worker worker_;
  Replica replica_;
  SimThreads::Queue queue_;
  std::optional<Failed> failure_;  // written by the threads, read when the queue is finished
  bool failure_told_ = false;
  double step_time_ = 0, wake_at_ = -1, ended_at_ = 0;
  bool crashed_ = false;
};

Simulation::Simulation(const Prepared& prepared, SimFaults faults, Observer* observer, std::size_t threads)
    : prepared_(prepared),
      faults_(std::move(faults)),
      windows_(prepared.job),
      profile_(prepared.job, faults_.seed),
      observer_(observer),
      random_(faults_.seed),
      threads_(observer ? 1 : threads) {
  const Job& job = prepared.job;
  const std::size_t peers = job.peers.size();
  initial_square_ = std::pow(compress::l2_norm(prepared.initial), 2);
  uplink_free_.assign(peers, 0);
  wires_.resize(peers);
  for (PeerId p = 0; p < peers; ++p)
    for (const PeerId to : prepared.plan->schedule.links(p)) {
      const LinkQuality link = profile_.link(p, to);
      wires_[p].push_back({to, link.bandwidth, link.latency, false, {}, 0});
    }
  const auto alike = make_shared_objective([&prepared] { return make_objective(prepared); });
  for (PeerId p = 0; p < peers; ++p)
    nodes_.push_back(std::make_unique<Node>(
        *this, p, prepared.homogeneous() ? alike : std::shared_ptr(make_objective(prepared, p))));
  running_ = peers;
}

Simulation::~Simulation() = default;

void Simulation::at(double time, PeerId peer, std::function<void()> action) {
  push({time, next_sequence_++, 0, peer, std::move(action)});
}

void Simulation::push(Event event) {
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

Simulation::Event Simulation::pop() {
  std::pop_heap(events_.begin(), events_.end(), std::greater<>());
  Event event = std::move(events_.back());
  events_.pop_back();
  return event;
}

/// The farthest from the mean is the one that ends, and is named by the others.
void Simulation::check_consensus() {
  if (!prepared_.homogeneous() || find_method(prepared_.job.exchange.method).needs.keeps_apart) return;
  std::vector<PeerId> whose;
  std::vector<std::span<const float>> models;
  for (PeerId p = 0; p < nodes_.size(); ++p) {
    if (nodes_[p]->gone() || !honest(prepared_.job, p)) continue;
    whose.push_back(p);
    models.push_back(nodes_[p]->replica().parameters());
  }
  if (models.empty()) return;
  const Spread spread = spread_of(models);
  const std::string what = too_far_apart(spread, initial_square_);
  if (what.empty()) return;
  const PeerId farthest = whose[spread.farthest];
  at(now_, farthest, [this, farthest, what] { nodes_[farthest]->on([&](Worker& w) { w.diverge(what); }); });
}

double Simulation::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

Simulation::Wire& Simulation::wire(PeerId from, PeerId to) {
  auto& wires = wires_[from];
  const auto at = std::lower_bound(wires.begin(), wires.end(), to,
                                   [](const Wire& w, PeerId peer) { return w.to < peer; });
  assert(at != wires.end() && at->to == to);
  return *at;
}

void Simulation::deliver(PeerId from, PeerId to, FrameBytes frame, std::uint32_t priority) {
  Wire& wire = this->wire(from, to);
  tell(Fate::sent, from, to, frame);
  wire.waiting[priority].push_back(std::move(frame));
  if (priority > 0) ++wire.parcels;
  if (!wire.sending) send_next(from, to);
}

/// Puts the waiting frame of the lowest priority number on the wire.
void Simulation::send_next(PeerId from, PeerId to) {
  Wire& wire = this->wire(from, to);
  wire.sending = !wire.waiting.empty();
  if (!wire.sending) return;
  const auto first = wire.waiting.begin();
  const FrameBytes frame = std::move(first->second.front());
  first->second.pop_front();
  const bool parcel = first->first > 0;
  if (first->second.empty()) wire.waiting.erase(first);
  const double bits = static_cast<double>(frame->size()) * 8;
  double sent = now_ + bits / wire.bandwidth;
  if (const auto uplink = prepared_.job.peers[from].uplink) {
    uplink_free_[from] = std::max(now_, uplink_free_[from]) + bits / *uplink;
    sent = std::max(sent, uplink_free_[from]);
  }
  at(sent, kNetwork, [this, from, to, frame, parcel] {
    if (parcel) --this->wire(from, to).parcels;
    arrive(from, to, frame);
    send_next(from, to);
  });
}

/// The last bit has left; what the network does with the frame.
void Simulation::arrive(PeerId from, PeerId to, const FrameBytes& frame) {
  const SimSection& sim = prepared_.job.sim;
  const Wire& wire = this->wire(from, to);
  if (uniform() < sim.loss) return tell(Fate::lost, from, to, frame);
  if (windows_.cut(from, to, now_)) return tell(Fate::cut, from, to, frame);
  const int copies = uniform() < sim.duplicate ? 2 : 1;
  for (int c = 0; c < copies; ++c) {
    if (c > 0) tell(Fate::copied, from, to, frame);
    double arrival = now_ + wire.latency + sim.jitter * uniform();
    if (uniform() < sim.reorder) arrival += 4 * wire.latency * (0.5 + uniform());
    const FrameBytes stray = sim.stray > 0 && uniform() < sim.stray ? stray_of(frame) : nullptr;
    if (stray) {
      tell(Fate::stray, from, to, stray);
      arrive_at(arrival, from, to, stray);
    }
    const std::size_t kinds = forgeries(goes_by_order(prepared_.job.exchange));
    const auto forgery = static_cast<Forgery>(sim.forge > 0 ? random_() % kinds : 0);
    const FrameBytes forge =
        sim.forge > 0 && uniform() < sim.forge ? forged(frame, forgery, random_) : nullptr;
    if (forge) {
      tell(Fate::forged, from, to, forge);
      arrive_at(arrival, from, to, forge);
    }
    const bool garble = sim.garble > 0 && uniform() < sim.garble;
    if (garble) tell(Fate::garbled, from, to, frame);
    arrive_at(arrival, from, to, garble ? garbled(frame) : frame);
  }
}

void Simulation::arrive_at(double time, PeerId from, PeerId to, const FrameBytes& frame) {
  const double free = windows_.clogged_until(from, to, time);
  if (free > time) tell(Fate::held, from, to, frame);
  ++scheduled_frames_;
  at(free, to, [this, from, to, frame] {
    --scheduled_frames_;
    tell(nodes_[to]->gone() ? Fate::late : Fate::arrived, from, to, frame);
    nodes_[to]->on([&](Worker& w) { w.on_frame(*frame); });
  });
}

std::size_t Simulation::frames_under_way() const {
  std::size_t frames = scheduled_frames_;
  for (const auto& row : wires_)
    for (const Wire& w : row) {
      frames += w.sending ? 1 : 0;
      for (const auto& [priority, waiting] : w.waiting) frames += waiting.size();
    }
  return frames;
}

/// Three bytes changed, as a faulty network card would.
FrameBytes Simulation::garbled(const FrameBytes& frame) {
  auto bytes = *frame;
  for (int k = 0; k < 3; ++k) bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1 + random_() % 255);
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

/// When the peer is neither paused nor asleep.
double Simulation::awake_at(PeerId peer, double time) const {
  while (true) {
    const double later = profile_.asleep_until(peer, windows_.paused_until(peer, time));
    if (later <= time) return time;
    time = later;
  }
}

SimProgress Simulation::progress() const {
  SimProgress p{now_, std::numeric_limits<Round>::max(), 0, 1, 0};
  for (const auto& node : nodes_) {
    p.least = std::min(p.least, node->worker().rounds());
    p.most = std::max(p.most, node->worker().rounds());
    p.share_done = std::min(p.share_done, node->worker().share_done());
    p.joined += node->worker().joined();
  }
  return p;
}

SimResult Simulation::run(const std::function<bool()>& stop) {
  for (const auto& [peer, time] : faults_.crashes)
    at(time, kNetwork, [this, p = peer] { nodes_[p]->crash(); });
  for (PeerId p = 0; p < nodes_.size(); ++p)
    at(0, p, [n = nodes_[p].get()] { n->on([](Worker& w) { w.start(); }); });
  for (std::uint64_t count = 0; running_ > 0; ++count) {
    if (events_.empty())
      throw std::runtime_error(fmt::format("the simulation stalled after {} s of virtual time", now_));
    if (stop && count % 64 == 0 && stop())
      for (auto& node : nodes_) node->on([](Worker& w) { w.interrupt(); });
    Event event = pop();
    now_ = event.time;
    if (event.peer != kNetwork)
      if (const double awake = awake_at(event.peer, now_); awake > now_) {
        at(awake, event.peer, std::move(event.action));
        continue;
      }
    if (observer_) observer_->on_time(now_);
    event.action();
  }
  SimResult result;
  for (PeerId p = 0; p < nodes_.size(); ++p) {
    result.peers.push_back(nodes_[p]->result());
    result.virtual_seconds = std::max(result.virtual_seconds, nodes_[p]->ended_at());
    result.digest = hash_bytes(std::as_bytes(parameters(p)), result.digest);
  }
  result.frames_under_way = frames_under_way();
  return result;
}

std::span<const float> Simulation::parameters(PeerId peer) const {
  return nodes_[peer]->replica().parameters();
}
std::span<const float> Simulation::slot(PeerId peer, Slot slot) const {
  return nodes_[peer]->replica().slot(slot);
}
const Extension* Simulation::extension(PeerId peer) const { return nodes_[peer]->replica().extension(); }
std::vector<float> Simulation::unsent(PeerId peer, int feedback) const {
  return nodes_[peer]->replica().unsent(feedback);
}

}  // namespace gossamer::node
