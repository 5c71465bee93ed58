#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace gossamer::node {
namespace {

/// The forward pass takes about a third of a gradient's time; parcels become ready over the rest, last layer
/// first.
constexpr double kForwardShare = 1.0 / 3;
constexpr double kLeastResend_s = 0.2;

/// The frame as an earlier start of its sender would have sent it, with other numbers in it; empty for what
/// is no parcel.
FrameBytes stray_of(const FrameBytes& bytes) {
  auto frame = decode_frame(*bytes);
  auto* body = frame ? std::get_if<ParcelBody>(&frame->body) : nullptr;
  if (!body || body->payload.size() < 4) return nullptr;
  std::vector<std::byte> payload(body->payload.begin(), body->payload.end());
  payload.back() ^= std::byte{1};
  body->payload = payload;
  frame->header.epoch += std::uint64_t{1} << 32;
  return encode_frame(*frame);
}

}  // namespace

/// One peer: its worker, its replica, and the world as they see it.
class Simulation::Node final : public Env, public DataPlane {
 public:
  Node(Simulation& sim, PeerId self, std::shared_ptr<optim::Objective> objective)
      : sim_(sim),
        self_(self),
        worker_(spec(sim, self), *this),
        replica_(make_replica(sim.prepared_, self, std::move(objective), worker_.slots(), false)) {
    replica_.observe(sim.observer_);
    const Job& job = sim.prepared_.job;
    step_time_ =
        job.sim.step_time * static_cast<double>(job.peers[self].batch) / static_cast<double>(job.batch);
    for (const auto& [name, factor] : job.sim.slow)
      if (name == job.peers[self].name) step_time_ *= factor;
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
      on([](Worker& w) { w.on_timer(); });
    });
  }
  void send(PeerId to, FrameBytes frame, std::uint32_t priority) override {
    sim_.deliver(self_, to, std::move(frame), priority);
  }
  std::size_t backlog(PeerId to) const override { return sim_.wire(self_, to).parcels_waiting; }
  DataPlane& data() override { return *this; }
  void report(const Report& r) override {
    if (sim_.on_report) sim_.on_report(self_, sim_.now_, r);
  }
  void log(const std::string& line) override {
    if (sim_.on_log) sim_.on_log(self_, sim_.now_, line);
  }

  // DataPlane: floats are computed at once, answers come after the time that they would take
  void submit(Op op) override {
    guarded([&] { replica_.run(op, [&](DataEvent e) { post(sim_.now_, std::move(e)); }); });
  }
  void submit(Gradient gradient) override {
    const double labelling = step_time_ * kForwardShare * static_cast<double>(gradient.soft.models.size());
    const double duration = step_time_ * (1 + sim_.prepared_.job.sim.step_jitter * (2 * sim_.uniform() - 1));
    const double begin = sim_.now_ + labelling + duration * kForwardShare,
                 rest = duration * (1 - kForwardShare);
    const std::size_t layers = sim_.prepared_.layers_of(self_).size();
    std::size_t done = 1;  // layers whose gradient stands, the one being posted included
    const auto time = [&] {
      return begin + rest * static_cast<double>(std::min(done, layers)) / static_cast<double>(layers);
    };
    guarded([&] {
      replica_.run(
          gradient, [&](DataEvent e) { post(time(), std::move(e)); }, [&] { ++done; });
    });
  }
  void submit_evaluation(Round round) override {
    guarded([&] { replica_.evaluate(round, [&](DataEvent e) { post(sim_.now_, std::move(e)); }); });
  }

  /// Runs an event on the worker, and counts it out when it ends.
  template <class Action>
  void on(Action&& action) {
    if (crashed_) return;
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

  Worker& worker() { return worker_; }
  const Replica& replica() const { return replica_; }
  bool crashed() const { return crashed_; }
  double ended_at() const { return ended_at_; }

 private:
  static WorkerSpec spec(const Simulation& sim, PeerId self) {
    WorkerSpec s = worker_spec(sim.prepared_, self, self + 1, 0);
    s.least_resend_s = kLeastResend_s;
    s.observer = sim.observer_;
    return s;
  }
  void post(double time, DataEvent event) {
    sim_.at(time, self_, [this, e = std::move(event)] { on([&](Worker& w) { w.on_data(e); }); });
  }
  template <class Action>
  void guarded(Action&& action) {
    try {
      action();
    } catch (const std::exception& e) {
      post(sim_.now_, Failed{e.what()});
    }
  }

  Simulation& sim_;
  PeerId self_;
  Worker worker_;
  Replica replica_;
  double step_time_ = 0, wake_at_ = -1, ended_at_ = 0;
  bool crashed_ = false;
};

Simulation::Simulation(const Prepared& prepared, SimFaults faults, Observer* observer)
    : prepared_(prepared),
      faults_(std::move(faults)),
      spells_(prepared.job),
      observer_(observer),
      random_(faults_.seed) {
  const Job& job = prepared.job;
  const std::size_t peers = job.peers.size();
  wires_.resize(peers);
  for (PeerId p = 0; p < peers; ++p)
    for (const PeerId to : prepared.plan->schedule.links(p))
      wires_[p].push_back({to, job.sim.bandwidth, job.sim.latency, false, {}, 0});
  for (const auto& l : job.links)
    for (const auto& [from, to] : {std::pair(l.a, l.b), std::pair(l.b, l.a)}) {
      const auto links = prepared.plan->schedule.links(from);
      if (!std::binary_search(links.begin(), links.end(), to)) continue;  // no edge of this graph
      if (l.bandwidth) wire(from, to).bandwidth = *l.bandwidth;
      if (l.latency) wire(from, to).latency = *l.latency;
    }
  const std::shared_ptr<optim::Objective> objective = make_objective(prepared);
  for (PeerId p = 0; p < peers; ++p)
    nodes_.push_back(std::make_unique<Node>(
        *this, p, prepared.alike() ? objective : std::shared_ptr(make_objective(prepared, p))));
  running_ = peers;
}

Simulation::~Simulation() = default;

void Simulation::at(double time, PeerId peer, std::function<void()> action) {
  events_.push({time, next_sequence_++, peer, std::move(action)});
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
  if (priority > 0) ++wire.parcels_waiting;
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
  if (first->first > 0) --wire.parcels_waiting;
  if (first->second.empty()) wire.waiting.erase(first);
  at(now_ + static_cast<double>(frame->size()) * 8 / wire.bandwidth, kNetwork, [this, from, to, frame] {
    arrive(from, to, frame);
    send_next(from, to);
  });
}

/// The last bit has left; what the network does with the frame.
void Simulation::arrive(PeerId from, PeerId to, const FrameBytes& frame) {
  const SimSection& sim = prepared_.job.sim;
  const Wire& wire = this->wire(from, to);
  if (uniform() < sim.loss) return tell(Fate::lost, from, to, frame);
  if (spells_.cut(from, to, now_)) return tell(Fate::cut, from, to, frame);
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
    const bool garble = sim.garble > 0 && uniform() < sim.garble;
    if (garble) tell(Fate::garbled, from, to, frame);
    arrive_at(arrival, from, to, garble ? garbled(frame) : frame);
  }
}

void Simulation::arrive_at(double time, PeerId from, PeerId to, const FrameBytes& frame) {
  const double free = spells_.clogged_until(from, to, time);
  if (free > time) tell(Fate::held, from, to, frame);
  at(free, to, [this, from, to, frame] {
    tell(nodes_[to]->crashed() ? Fate::late : Fate::arrived, from, to, frame);
    nodes_[to]->on([&](Worker& w) { w.on_frame(*frame); });
  });
}

/// Three bytes changed, as a faulty network card would.
FrameBytes Simulation::garbled(const FrameBytes& frame) {
  auto bytes = *frame;
  for (int k = 0; k < 3; ++k) bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1 + random_() % 255);
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
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
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    if (event.peer != kNetwork)
      if (const double awake = spells_.paused_until(event.peer, now_); awake > now_) {
        at(awake, event.peer, std::move(event.action));
        continue;
      }
    if (observer_) observer_->on_time(now_);
    event.action();
  }
  SimResult result;
  for (PeerId p = 0; p < nodes_.size(); ++p) {
    result.peers.push_back(nodes_[p]->worker().result());
    if (nodes_[p]->crashed()) result.peers.back().message = "crashed";
    result.virtual_seconds = std::max(result.virtual_seconds, nodes_[p]->ended_at());
    result.digest = hash_bytes(std::as_bytes(parameters(p)), result.digest);
  }
  return result;
}

std::span<const float> Simulation::parameters(PeerId peer) const {
  return nodes_[peer]->replica().parameters();
}
std::span<const float> Simulation::slot(PeerId peer, Slot slot) const {
  return nodes_[peer]->replica().slot(slot);
}
std::vector<float> Simulation::unsent(PeerId peer, int feedback) const {
  return nodes_[peer]->replica().unsent(feedback);
}

}  // namespace gossamer::node
