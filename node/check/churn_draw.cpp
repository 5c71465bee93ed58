// What a seed stands for where members come and go.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "aggregation.h"
#include "draw.h"
#include "method.h"
#include "plan.h"
#include "soundness.h"
#include "sparse_rows.h"
#include "swarm.h"

namespace gossamer::node {
namespace {

constexpr double kFirstFault_s = 0.3, kLongestFault_s = 4;
/// One fault in so many seconds, on average of the time in which there are any.
constexpr double kFaultEvery_s = 1.5;
constexpr double kEndShare = 0.4;  ///< of the run, in which faults begin

/// The faults of a run, one by one.
class MemberFaults {
 public:
  MemberFaults(Draw& d, SwarmCase& c, double seconds)
      : d_(d), c_(c), sim_(c.job.sim), peers_(c.job.peers.size()), seconds_(seconds), survivor_(any_peer()) {}

  void draw() {
    const double most = std::max(1.0, (kEndShare * seconds_ - kFirstFault_s) / kFaultEvery_s);
    const std::size_t faults = d_.from(1, static_cast<std::size_t>(2 * most));
    for (std::size_t k = 0; k < faults; ++k) {
      double left = d_.uniform(0, total_weight());
      const Kind* kind = kKinds.data();
      while (left >= kind->weight && kind != &kKinds.back()) left -= (kind++)->weight;
      (this->*kind->draw)(d_.seconds(kFirstFault_s, kEndShare * seconds_));
    }
    end_crashes_in_order();
  }

 private:
  struct Kind {
    double weight;
    void (MemberFaults::*draw)(double begin);
  };

  /// Peers that stay gone; at least one never crashes at all.
  void crash(double begin) {
    const PeerId who = any_peer();
    if (who == survivor_ || crashed(who)) return restart(begin);
    c_.crashes.emplace_back(who, begin);
    reaches(begin);
  }
  void restart(double begin) {
    const PeerId who = any_peer();
    if (who == survivor_ || crashed(who)) return pause(begin);
    const double length = d_.chance(0.5) ? d_.seconds(0.001, 0.3) : d_.seconds(0.3, kLongestFault_s);
    sim_.crash.push_back({name(who), begin, length});
    reaches(begin + length);
    if (peers_ > 1 && d_.chance(0.5)) stale(who, begin, length);
  }
  /// What the process that is gone had sent comes when another stands in its place.
  void stale(PeerId who, double begin, double length) {
    const PeerId to = other(who);
    const double early = std::min(begin, d_.seconds(0, 0.3)), late = d_.seconds(0, 1);
    sim_.clog.push_back({direction(who, to), begin - early, early + length + late});
    reaches(begin + length + late);
  }
  void pause(double begin) {
    const double length = d_.chance(0.5) ? d_.seconds(0.05, 1) : d_.seconds(1, kLongestFault_s);
    sim_.pause.push_back({name(any_peer()), begin, length});
    reaches(begin + length);
  }
  void cut(double begin) {
    if (peers_ == 1) return;
    const PeerId from = any_peer();
    const double length = d_.seconds(0.1, kLongestFault_s);
    sim_.cut.push_back({direction(from, other(from)), begin, length});
    reaches(begin + length);
  }
  void clog(double begin) {
    if (peers_ == 1) return;
    const PeerId from = any_peer();
    const double length = d_.seconds(0.1, kLongestFault_s);
    sim_.clog.push_back({direction(from, other(from)), begin, length});
    reaches(begin + length);
  }
  /// Two sides; in one direction or both.
  void partition(double begin) {
    const double length = d_.seconds(0.2, kLongestFault_s);
    const bool there = d_.chance(0.8), back = !there || d_.chance(0.7);
    std::vector<bool> side;
    for (std::size_t p = 0; p < peers_; ++p) side.push_back(d_.chance(0.5));
    for (PeerId a = 0; a < peers_; ++a)
      for (PeerId b = 0; b < peers_; ++b)
        if (side[a] != side[b] && (side[a] ? there : back))
          sim_.cut.push_back({direction(a, b), begin, length});
    reaches(begin + length);
  }
  static constexpr std::array<Kind, 6> kKinds{{{1, &MemberFaults::crash},
                                               {5, &MemberFaults::restart},
                                               {2, &MemberFaults::pause},
                                               {1, &MemberFaults::cut},
                                               {1, &MemberFaults::clog},
                                               {2, &MemberFaults::partition}}};
  static double total_weight() {
    double sum = 0;
    for (const Kind& kind : kKinds) sum += kind.weight;
    return sum;
  }

  /// A process that begins again crashes after that at the earliest.
  void end_crashes_in_order() {
    auto& all = sim_.crash;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (std::size_t k = 0; k < all.size(); ++k)
      std::erase_if(all, [&, one = all[k]](const FaultWindow& w) {
        return w.where == one.where && w.begin > one.begin && w.begin <= one.begin + one.seconds;
      });
    for (const auto& [peer, time] : c_.crashes)  // who is gone for good does not come back
      std::erase_if(all, [&, p = peer, t = time](const FaultWindow& w) {
        return w.where == name(p) && w.begin + w.seconds >= t;
      });
  }

  bool crashed(PeerId p) const {
    return std::any_of(c_.crashes.begin(), c_.crashes.end(), [&](const auto& c) { return c.first == p; });
  }
  PeerId any_peer() { return static_cast<PeerId>(d_.below(peers_)); }
  PeerId other(PeerId p) { return static_cast<PeerId>((p + 1 + d_.below(peers_ - 1)) % peers_); }
  std::string name(PeerId p) const { return c_.job.peers[p].name; }
  std::string direction(PeerId a, PeerId b) const { return name(a) + ">" + name(b); }
  void reaches(double time) { c_.last_fault = std::max(c_.last_fault, time); }

  Draw& d_;
  SwarmCase& c_;
  SimSection& sim_;
  std::size_t peers_;
  double seconds_;
  PeerId survivor_;
};

void draw_network(Draw& d, SimSection& sim) {
  sim.step_jitter = d.one(std::array{0.0, 0.1, 0.9});
  sim.bandwidth = d.decades(1e7, 1e9);
  sim.latency = d.seconds(0, 0.03);
  if (d.chance(0.5)) sim.jitter = d.seconds(0.001, 0.03);
  if (d.chance(0.3)) sim.loss = d.one(std::array{0.01, 0.05, 0.1});
  if (d.chance(0.5)) sim.duplicate = d.one(std::array{0.05, 0.2, 0.5});
  if (d.chance(0.5)) sim.reorder = d.one(std::array{0.05, 0.2, 0.5});
  if (d.chance(0.25)) sim.stray = d.one(std::array{0.02, 0.1});
  if (d.chance(0.25)) sim.garble = d.one(std::array{0.01, 0.05});
  if (d.chance(0.3)) sim.clock_skew = d.one(std::array{1e-4, 0.01, 0.1});
}

/// A small model, so that many rounds cost little.
bool small(const Job& job) {
  return std::all_of(job.model.hidden.begin(), job.model.hidden.end(), [](auto n) { return n <= 12; });
}

/// The program accepts it where a loss does not end the run.
bool bears_losses(Job job) try {
  if (job.run.min_peers == 0) job.run.min_peers = 1;
  make_plan(job, 0);
  return true;
} catch (const ConfigError&) {
  return false;
}

void draw_run(Draw& d, SwarmCase& c, double seconds) {
  Job& job = c.job;
  const std::size_t rounds = job.run.rounds;
  job.sim = {};
  job.links.clear();
  draw_network(d, job.sim);
  job.sim.step_time = std::max(1e-3, std::round(1e3 * seconds / static_cast<double>(rounds)) / 1e3);
  if (d.chance(0.2))
    job.sim.slow = {{job.peers[d.below(job.peers.size())].name, d.one(std::array{0.3, 3.0})}};
  // what a rule is to bear is not refused
  if (rule_scope(job.exchange.aggregate) == RuleScope::none && d.chance(0.2)) {
    job.sim.forge = d.one(std::array{0.02, 0.1});
    job.run.mute_after = 0;  // a stranger who writes in neighbours' names would have them muted
  }
  if (job.run.min_peers == 0) job.run.min_peers = 1;
  c.churn = true;
  c.breaks = d.chance(0.5);
  MemberFaults(d, c, seconds).draw();
  job.run.partition_timeout = d.one(std::array{2.0, 6.0});
  if (d.chance(0.3)) job.run.on_partition = d.one(std::array{"majority", "stop"});
  c.longest = 8 * seconds + 60;
}

}  // namespace

SwarmCase draw_churn(std::uint64_t seed, double seconds, const Job* job) {
  Draw d(seed ^ 0x9e3779b97f4a7c15U);
  SwarmCase c;
  c.seed = seed;
  do {
    c.job = job ? *job : draw_job(d);
  } while (!job && (!small(c.job) || c.job.peers.size() < 2 || !bears_losses(c.job)));
  if (!job) c.job.run.rounds = d.from(60, 150);
  if (!job) draw_overlap(seed, c.job);
  if (!job && c.job.peers.size() > 2 && d.chance(0.2))
    c.job.run.min_peers = d.from(2, c.job.peers.size() - 1);
  draw_run(d, c, seconds);
  if (d.chance(0.3)) c.job.sim.pose = d.one(std::array{0.02, 0.1});
  return c;
}

}  // namespace gossamer::node
