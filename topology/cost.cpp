// The timeline behind round_cost: s_i(t), when peer i begins round t, is carried from round to round. Each
// transfer leaves at the latest of: its sender's part being ready, the arrivals that it comes after, the
// link being free. Transfers of a round take their links in the order in which they could leave. In a
// synchronous round all of this is max and plus, so that s grows by a constant per
// period in the long run (the largest mean over the cycles of waiting), whatever the first rounds were like.
#include "gossamer/topology/cost.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <queue>

#include "gossamer/topology/report.h"

namespace gossamer::topology {
namespace {

constexpr double kWeightOfMixing = 0.1;  ///< a in round_growth

class Timeline {
 public:
  Timeline(const Traffic& traffic, std::span<const double> step, const LinkTable& links,
           std::size_t staleness)
      : traffic_(traffic),
        step_(step),
        links_(links),
        begin_(links.peers(), 0),
        free_(links.peers() * links.peers(), 0),
        uplink_free_(links.peers(), 0),
        needed_(staleness + 1, std::vector<double>(links.peers(), 0)) {
    for (const std::vector<Transfer>& list : traffic) {
      auto& next = next_.emplace_back(list.size());
      for (std::uint32_t k = 0; k < list.size(); ++k)
        for (const std::uint32_t earlier : list[k].after) next[earlier].push_back(k);
    }
  }

  void round(std::size_t t) {
    const std::size_t peers = links_.peers();
    std::vector<double>& needed = needed_[t % needed_.size()];  // of the round that is `staleness` back, once
    std::fill(needed.begin(), needed.end(), 0);                 // this round's stands in it
    last_.assign(peers, 0);
    release(t);
    while (!released_.empty()) {
      const auto [leave, k] = released_.top();
      released_.pop();
      const Transfer& m = traffic_[t % traffic_.size()][k];
      const double arrival = send(m, leave);
      for (const std::uint32_t later : next_[t % next_.size()][k]) {
        leave_[later] = std::max(leave_[later], arrival);
        if (--missing_[later] == 0) released_.emplace(leave_[later], later);
      }
      if (arrival > needed[m.to]) {
        needed[m.to] = arrival;
        last_[m.to] = k;
      }
    }
    const std::vector<double>& due = needed_[(t + 1) % needed_.size()];
    for (PeerId i = 0; i < peers; ++i) begin_[i] = std::max(begin_[i] + step_[i], due[i]);
  }

  double end() const { return *std::max_element(begin_.begin(), begin_.end()); }

  /// The message that the last peer of round t waited for.
  void name_slowest(std::size_t t, RoundCost& cost) const {
    const auto peer = static_cast<PeerId>(std::max_element(begin_.begin(), begin_.end()) - begin_.begin());
    cost.from = cost.to = peer;
    const std::vector<Transfer>& list = traffic_[t % traffic_.size()];
    if (needed_.size() == 1 && !list.empty() && needed_[0][peer] >= begin_[peer] && needed_[0][peer] > 0)
      cost.from = list[last_[peer]].from;
  }

 private:
  /// What waits for nothing but its sender's step.
  void release(std::size_t t) {
    const std::vector<Transfer>& list = traffic_[t % traffic_.size()];
    leave_.resize(list.size());
    missing_.resize(list.size());
    for (std::uint32_t k = 0; k < list.size(); ++k) {
      leave_[k] = begin_[list[k].from] + list[k].ready * step_[list[k].from];
      missing_[k] = list[k].after.size();
      if (missing_[k] == 0) released_.emplace(leave_[k], k);
    }
  }

  double send(const Transfer& m, double leave) {
    const LinkTable::Link& link = links_.at(m.from, m.to);
    double& free = free_[m.from * links_.peers() + m.to];
    double sent = std::max(leave, free) + 8 * m.bytes / link.bandwidth;
    if (std::isfinite(links_.uplink(m.from))) {
      double& shared = uplink_free_[m.from];
      shared = std::max(leave, shared) + 8 * m.bytes / links_.uplink(m.from);
      sent = std::max(sent, shared);
    }
    free = sent;
    return sent + link.latency;
  }

  const Traffic& traffic_;
  std::span<const double> step_;
  const LinkTable& links_;
  std::vector<double> begin_;                ///< s_i
  std::vector<double> free_;                 ///< of each link: when its last message has left
  std::vector<double> uplink_free_;          ///< of each peer
  std::vector<std::vector<double>> needed_;  ///< [round mod (staleness + 1)][peer]: last arrival
  std::vector<std::vector<std::vector<std::uint32_t>>> next_;  ///< [round][transfer]: which come after it
  // Of this round's transfers: when each may leave as far as known, and how many it still waits for.
  std::vector<double> leave_;
  std::vector<std::size_t> missing_;
  using Release = std::pair<double, std::uint32_t>;
  std::priority_queue<Release, std::vector<Release>, std::greater<>> released_;
  std::vector<std::size_t> last_;  ///< of each peer: the transfer that came last
};

}  // namespace

LinkTable::LinkTable(std::size_t peers, Link everywhere)
    : links_(peers * peers, everywhere), uplinks_(peers, std::numeric_limits<double>::infinity()) {}

double LinkTable::seconds(PeerId a, PeerId b, double bytes) const {
  return std::max(at(a, b).seconds(bytes), at(b, a).seconds(bytes));
}

LinkTable LinkTable::placed(std::span<const PeerId> order) const {
  assert(order.size() == peers());
  LinkTable table(peers(), {1, 0});
  for (PeerId i = 0; i < peers(); ++i) {
    table.uplink(i) = uplink(order[i]);
    for (PeerId j = 0; j < peers(); ++j) table.at(i, j) = at(order[i], order[j]);
  }
  return table;
}

RoundCost round_cost(const Traffic& traffic, std::span<const double> step, const LinkTable& links,
                     std::size_t staleness) {
  assert(step.size() == links.peers() && !traffic.empty());
  RoundCost cost;
  cost.step = *std::max_element(step.begin(), step.end());
  // What a window of rounds takes repeats after a multiple of the period and of how far peers may run ahead.
  // Waves of waiting settle within about twice as many rounds with messages as there are peers; few are
  // enough for many peers.
  const std::size_t unit = traffic.size() * (staleness + 1),
                    settle = std::min<std::size_t>(2 * links.peers(), 64);
  const auto silent = static_cast<std::size_t>(
      std::count_if(traffic.begin(), traffic.end(), [](const auto& round) { return round.empty(); }));
  const std::size_t busy = std::max<std::size_t>(1, traffic.size() - silent) * (staleness + 1);
  const std::size_t before = (settle + busy - 1) / busy * unit, measured = before;
  Timeline timeline(traffic, step, links, staleness);
  std::size_t t = 0;
  for (; t < before; ++t) timeline.round(t);
  const double begin = timeline.end();
  for (; t < before + measured; ++t) timeline.round(t);
  cost.seconds = (timeline.end() - begin) / static_cast<double>(measured);
  timeline.name_slowest(t - 1, cost);
  return cost;
}

Schedule damped(const Schedule& schedule, std::span<const double> gammas) {
  assert(gammas.size() == schedule.period());
  std::vector<MixingMatrix> cycle;
  for (Round t = 0; t < schedule.period(); ++t) {
    std::vector<std::vector<Edge>> rows;
    for (PeerId i = 0; i < schedule.peers(); ++i) {
      const std::span<const Edge> row = schedule.at(t).in(i);
      rows.emplace_back(row.begin(), row.end());
      for (Edge& e : rows.back()) e.weight *= static_cast<float>(gammas[t]);
    }
    cycle.emplace_back(std::move(rows));
  }
  return Schedule(std::move(cycle));
}

Schedule damped(const Schedule& schedule, double gamma) {
  return damped(schedule, std::vector<double>(schedule.period(), gamma));
}

double consensus_delay(const Schedule& schedule, const Pull& pull) {
  if (schedule.peers() == 1) return 1;
  constexpr std::size_t kSettled = 32;  // rounds in which momentum has shown what it does
  const std::size_t rounds = std::max(schedule.period(), pull.momentum > 0 ? kSettled : 1);
  const std::vector<double> errors = consensus_errors(schedule, rounds, pull);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t tau = 1; tau < errors.size(); ++tau)
    if (const double p = 1 - errors[tau] * errors[tau]; p > 1e-12)
      least = std::min(least, static_cast<double>(tau) / p);
  return least;
}

double round_growth(double delay, double heterogeneity) {
  constexpr double a = kWeightOfMixing;
  return 1 + a * (std::sqrt(delay) - 1) + (a * a + a * heterogeneity) * (delay - 1);
}

}  // namespace gossamer::topology
