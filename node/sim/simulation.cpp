#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "forge.h"
#include "gossamer/compress/feedback.h"
#include "hash.h"
#include "method.h"
#include "sim_node.h"
#include "view_run.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostViewRuns = 16;  ///< kept for views of the same peers
constexpr double kReconnect_s = 0.05;      ///< as ZmqEnv

Job with_joiners(Job job, const SimFaults& faults) {
  for (const auto& [name, time] : faults.joins) {
    PeerEntry peer;
    peer.name = name;
    peer.address = peer.bind = "tcp://" + name + ":1";
    peer.batch = job.batch;
    job.peers.push_back(std::move(peer));
  }
  return job;
}

}  // namespace

Simulation::Simulation(const Prepared& prepared, SimFaults faults, Observer* observer, std::size_t threads)
    : prepared_(prepared),
      faults_(std::move(faults)),
      job_(with_joiners(prepared.job, faults_)),
      windows_(job_),
      profile_(job_, faults_.seed),
      observer_(observer),
      random_(faults_.seed),
      threads_(observer || prepared.learner.objective ? 1 : threads) {
  const Job& job = prepared.job;
  const std::size_t peers = job.peers.size();
  initial_square_ = std::pow(compress::l2_norm(prepared.initial), 2);
  uplink_free_.assign(job_.peers.size(), 0);
  wires_.resize(job_.peers.size());
  for (PeerId p = 0; p < peers; ++p)
    for (const PeerId to : prepared.links_of(p)) {
      const LinkQuality link = profile_.link(p, to);
      wires_[p].push_back({to, link.bandwidth, link.latency, false, {}, 0});
    }
  const bool shared = prepared.homogeneous() && !prepared.learner.objective && !prepared.job.learns_by_key();
  const auto alike = shared ? make_shared_model([&prepared] { return make_model(prepared); }) : nullptr;
  for (PeerId p = 0; p < peers; ++p) nodes_.push_back(std::make_unique<Node>(*this, p, alike, p + 1));
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
    if (nodes_[p]->gone() || !nodes_[p]->trains() || !honest(job_, p)) continue;
    whose.push_back(p);
    models.push_back(nodes_[p]->replica().parameters());
  }
  if (models.empty()) return;
  const Spread spread = spread_of(models);
  const std::string what = too_far_apart(spread, initial_square_);
  if (what.empty()) return;
  const PeerId farthest = whose[spread.farthest];
  at(now_, farthest, [this, farthest, what] {
    nodes_[farthest]->on([&](Member& m) {
      if (m.worker()) m.worker()->diverge(what);
    });
  });
}

double Simulation::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

Simulation::Wire& Simulation::wire(PeerId from, PeerId to) {
  auto& wires = wires_[from];
  auto at = std::lower_bound(wires.begin(), wires.end(), to,
                             [](const Wire& w, PeerId peer) { return w.to < peer; });
  if (at == wires.end() || at->to != to) {
    const LinkQuality link = profile_.link(from, to);
    at = wires.insert(at, {to, link.bandwidth, link.latency, false, {}, 0});
  }
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
  if (const auto uplink = job_.peers[from].uplink) {
    uplink_free_[from] = std::max(now_, uplink_free_[from]) + bits / *uplink;
    sent = std::max(sent, uplink_free_[from]);
  }
  if (on_trace)
    on_trace(from, {.what = "send",
                    .track = TraceSpan::Track::links,
                    .begin_s = now_,
                    .end_s = sent,
                    .bytes = static_cast<std::int64_t>(frame->size()),
                    .to = job_.peers[to].name});
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
    const FrameBytes posed =
        sim.pose > 0 && uniform() < sim.pose ? in_anothers_name(frame, job_.peer_names(), random_) : nullptr;
    if (posed) {
      tell(Fate::posed, from, to, posed);
      arrive_at(arrival, from, to, posed);
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
    nodes_[to]->on([&](Member& m) { m.on_frame(*frame, &job_.peers[from].name); });
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
  std::vector<std::byte> bytes(frame->begin(), frame->end());
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
    p.least = std::min(p.least, node->member().rounds());
    p.most = std::max(p.most, node->member().rounds());
    p.share_done = std::min(p.share_done, node->member().share_done());
    p.joined += node->member().joined();
  }
  return p;
}

void Simulation::begin() {
  if (std::exchange(begun_, true)) return;
  const auto all = [](auto list, const auto& more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  for (const auto& [peer, time] : all(faults_.crashes, windows_.crashes()))
    at(time, kNetwork, [this, p = peer] { crash(p); });
  for (const auto& [peer, time] : all(faults_.restarts, windows_.restarts()))
    at(time, kNetwork, [this, p = peer] { restart(p); });
  for (PeerId j = 0; j < faults_.joins.size(); ++j)
    at(faults_.joins[j].second, kNetwork,
       [this, p = static_cast<PeerId>(prepared_.job.peers.size() + j)] { join(p); });
  for (PeerId p = 0; p < nodes_.size(); ++p)
    at(0, p, [n = nodes_[p].get()] { n->on([](Member& m) { m.start(); }); });
}

/// The machine lives: it says that nobody listens there, as soon as another asks.
void Simulation::crash(PeerId peer) {
  if (peer >= nodes_.size() || nodes_[peer]->gone()) return;
  nodes_[peer]->crash();
  if (!faults_.views || !faults_.breaks) return;
  for (PeerId p = 0; p < nodes_.size(); ++p) {
    if (p == peer || windows_.cut(peer, p, now_)) continue;
    const double seen = now_ + wire(peer, p).latency;
    at(seen, p, [this, p, peer] {
      if (const auto number = nodes_[p]->number_of(peer))
        nodes_[p]->on([&](Member& m) { m.on_broken(*number); });
    });
    at(seen + kReconnect_s + 2 * wire(peer, p).latency, p, [this, p, peer] {
      if (const auto number = nodes_[p]->number_of(peer); number && nodes_[peer]->crashed())
        nodes_[p]->on([&](Member& m) { m.on_refused(*number); });
    });
  }
}

/// Of a peer that crashed, or has ended: another process, which has nothing.
void Simulation::restart(PeerId peer) {
  if (peer >= nodes_.size() || (!nodes_[peer]->crashed() && !nodes_[peer]->member().finished())) return;
  const std::uint64_t start = ++restarts_ << 40 | (peer + 1);
  if (peer < prepared_.job.peers.size())
    nodes_[peer]->begin(nullptr, start);
  else
    nodes_[peer]->begin_joining(somebody_there(), start);
  ++running_;
  nodes_[peer]->on([](Member& m) { m.start(); });
}

/// The first that is there; one that joins asks it.
PeerId Simulation::somebody_there() const {
  PeerId p = 0;
  while (p + 1 < nodes_.size() && (nodes_[p]->gone() || nodes_[p]->member().finished())) ++p;
  return p;
}

/// Those of faults_.joins come in its order.
void Simulation::join(PeerId peer) {
  assert(peer == nodes_.size());
  nodes_.push_back(std::make_unique<Node>(*this, peer, somebody_there(), peer + 1));
  ++running_;
  nodes_[peer]->on([](Member& m) { m.start(); });
}

std::shared_ptr<const Prepared> Simulation::prepared_for(const std::vector<std::string>& names) {
  if (view_runs_.size() >= kMostViewRuns) view_runs_.clear();
  auto& run = view_runs_[names];
  if (!run) run = run_of_view(prepared_, names).prepared;
  return run;
}

void Simulation::step() {
  if (events_.empty())
    throw std::runtime_error(fmt::format("the simulation stalled after {} s of virtual time", now_));
  Event event = pop();
  now_ = event.time;
  if (event.peer != kNetwork)
    if (const double awake = awake_at(event.peer, now_); awake > now_)
      return at(awake, event.peer, std::move(event.action));
  if (observer_) observer_->on_time(now_);
  event.action();
}

std::vector<State> Simulation::save_after(Round rounds) {
  begin();
  go_on();
  for (auto& node : nodes_) node->worker().hold_after(rounds);
  const auto quiet = [&] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->idle() && node->worker().holds(); });
  };
  while (!quiet()) {
    step();
    if (running_ < nodes_.size())
      throw std::runtime_error(fmt::format("a peer ended before all had done {} rounds", rounds));
  }
  for (auto& node : nodes_) node->on([](Member& m) { m.worker()->save(); });
  std::vector<State> states;
  for (auto& node : nodes_) {
    std::optional<State> state;
    while (!(state = node->take_saved())) step();
    states.push_back(std::move(*state));
  }
  return states;
}

void Simulation::check_states(const std::vector<State>& states) const {
  if (states.size() != nodes_.size())
    throw StateError(
        fmt::format("found the states of {} peers; this job has {}", states.size(), nodes_.size()));
}

void Simulation::restore(const std::vector<State>& states) {
  check_states(states);
  for (PeerId p = 0; p < nodes_.size(); ++p) nodes_[p]->worker().restore(states[p]);
}

void Simulation::restore_learned(const std::vector<State>& states) {
  check_states(states);
  for (PeerId p = 0; p < nodes_.size(); ++p) nodes_[p]->worker().restore_learned(states[p]);
}

void Simulation::go_on() {
  for (auto& node : nodes_)
    node->on([](Member& m) {
      if (m.worker()) m.worker()->resume();
    });
}

SimResult Simulation::run(const std::function<bool()>& stop) {
  begin();
  go_on();
  for (std::uint64_t count = 0; running_ > 0; ++count) {
    if (stop && count % 64 == 0 && stop())
      for (auto& node : nodes_) node->on([](Member& m) { m.interrupt(); });
    step();
  }
  SimResult result;
  for (PeerId p = 0; p < nodes_.size(); ++p) {
    result.peers.push_back(nodes_[p]->result());
    result.virtual_seconds = std::max(result.virtual_seconds, nodes_[p]->ended_at());
    result.digest = hash_bytes(std::as_bytes(parameters(p)), result.digest);
    nodes_[p]->add_rows(result.peers.back(), result.digest);
  }
  result.frames_under_way = frames_under_way();
  return result;
}

void Simulation::interrupt(PeerId peer, double time) {
  at(time, peer, [n = nodes_[peer].get()] { n->on([](Member& m) { m.interrupt(); }); });
}

Simulation::Standpoint Simulation::standpoint(PeerId peer) const {
  const Node& n = *nodes_[peer];
  return {n.crashed(), n.member().finished(), n.trains() ? &n.member().view() : nullptr, n.start()};
}

std::span<const float> Simulation::parameters(PeerId peer) const {
  return nodes_[peer]->replica().parameters();
}
std::span<const float> Simulation::slot(PeerId peer, Slot slot) const {
  return nodes_[peer]->replica().slot(slot);
}
optim::Objective& Simulation::objective(PeerId peer) const { return nodes_[peer]->settled().objective(); }
const Extension* Simulation::extension(PeerId peer) const { return nodes_[peer]->replica().extension(); }
std::vector<float> Simulation::unsent(PeerId peer, int feedback) const {
  return nodes_[peer]->replica().unsent(feedback);
}

}  // namespace gossamer::node
