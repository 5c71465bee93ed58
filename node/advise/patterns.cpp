#include "patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "gossamer/topology/placement.h"
#include "gossamer/topology/report.h"
#include "method.h"
#include "model_parts.h"
#include "outer.h"
#include "text.h"

namespace gossamer::node {
namespace {

using topology::Framing;
using topology::Part;
using topology::Traffic;
using Messages = Pattern::Messages;
using Mixing = Pattern::Mixing;

constexpr std::size_t kUnbounded = 64;  ///< rounds behind that stand for any number

/// The schedule's k-th matrix at a parcel's k-th exchange, each parcel after its own round of every H.
Traffic outer_traffic(const Job& job, const topology::Schedule& schedule, std::span<const Part> parts,
                      const std::vector<optim::Layer>& layers, const Framing& framing) {
  const std::size_t steps = local_steps(job.exchange);
  const Fragments fragments(steps, job.exchange.fragments, make_parcels(layers, job.exchange.parcel));
  Traffic traffic(steps * schedule.period());
  for (Round t = 0; t < traffic.size(); ++t)
    for (std::size_t k = 0; k < parts.size(); ++k) {
      // In the second period: in the first, fragments with an offset have not begun yet.
      const auto number = fragments.exchange(traffic.size() + t, static_cast<ParcelId>(parts.size() - 1 - k));
      if (!number) continue;
      const auto& matrix = schedule.at(*number);
      for (PeerId i = 0; i < schedule.peers(); ++i)
        for (const PeerId j : matrix.out(i))
          traffic[t].push_back({i, j, parts[k].ready, framing.on_wire(parts[k].bytes), {}});
    }
  return traffic;
}

/// What consensus_delay and analyse say of it, where each exchange comes after `steps` rounds.
Consensus of_schedule(const topology::Schedule& schedule, double steps = 1) {
  const auto rounds = static_cast<double>(topology::analyse(schedule).rounds_to_1e6);
  return {steps * topology::consensus_delay(schedule), rounds < 0 ? -1 : steps * rounds};
}

Consensus of_pull(const topology::Schedule& schedule, const topology::Pull& pull, double steps) {
  constexpr std::size_t kLooked = 64;
  const std::vector<double> errors =
      topology::consensus_errors(schedule, std::max(kLooked, 2 * schedule.period()), pull);
  const double rounds = topology::rounds_to_consensus(errors);
  return {steps * topology::consensus_delay(schedule, pull), rounds < 0 ? -1 : steps * rounds};
}

Consensus of_pairs(std::size_t peers, std::span<const double> pairings) {
  const double left = topology::pair_contraction(peers, pairings);
  if (left >= 1) return {INFINITY, -1};
  return {1 / (1 - left), std::ceil(std::log(1e-12) / std::log(left))};
}

/// Seconds from a request of the whole model to its answer.
double round_trip(const topology::LinkTable& links, PeerId i, PeerId j, double bytes) {
  return links.at(i, j).seconds(bytes) + links.at(j, i).seconds(bytes);
}

/// Of the round: whom a peer sends to or hears from.
std::vector<PeerId> neighbours(const topology::MixingMatrix& matrix, PeerId i) {
  const auto out = matrix.out(i);
  std::vector<PeerId> all(out.begin(), out.end());
  for (const auto& e : matrix.in(i))
    if (std::find(out.begin(), out.end(), e.peer) == out.end()) all.push_back(e.peer);
  return all;
}

}  // namespace

std::vector<const Method*> methods_of_known_cost(std::span<const std::string> names) {
  std::vector<const Method*> known, chosen;
  std::copy_if(methods().begin(), methods().end(), std::back_inserter(known),
               [](const Method* m) { return m->pattern.has_value(); });
  if (names.empty()) return known;
  for (const std::string& name : names) {
    chosen.push_back(&find_method(name));
    if (chosen.back()->pattern) continue;
    std::vector<std::string> expected;
    for (const Method* m : known) expected.emplace_back(m->row.name);
    throw ConfigError(fmt::format("--methods {}: what its rounds cost is not known; expected some of {}",
                                  name, join(expected, ", ")));
  }
  return chosen;
}

std::vector<Part> pattern_parts(const Method& method, const Job& job,
                                const std::vector<optim::Layer>& layers) {
  if (!method.pattern->bytes) return model_parts(job, layers);
  return model_parts(job, layers,
                     [&](std::size_t entries) { return method.pattern->bytes(job.exchange, entries); });
}

Traffic exchange_traffic(const Method& method, const Job& job, const Plan& plan, const std::string& algorithm,
                         std::span<const Part> parts, const Framing& framing) {
  const std::size_t peers = job.peers.size();
  switch (method.pattern->messages) {
    case Messages::tree:
      return goes_by_butterfly(plan) ? topology::butterfly_traffic(peers, parts, framing)
                                     : topology::tree_traffic(peers, parts, framing);
    case Messages::reduce:
      if (algorithm.empty()) return topology::slice_traffic(peers, parts, framing);
      return algorithm == "ring" ? topology::ring_traffic(peers, parts, framing)
                                 : topology::halving_traffic(peers, parts, framing);
    case Messages::gossip:
    case Messages::pairs:
      return topology::gossip_traffic(topology::make_schedule(job.graph), parts, framing,
                                      method.pattern->vectors);
  }
  return {};
}

RoundTraffic round_traffic(const Method& method, const Job& job, const Plan& plan, const Traffic& exchanged,
                           std::span<const Part> parts, const std::vector<optim::Layer>& layers,
                           const Framing& framing) {
  if (method.pattern->messages == Messages::pairs) return {Traffic(1), 0};
  if (method.needs.outer)
    return {outer_traffic(job, plan.schedule, parts, layers, framing), job.exchange.outer_delay};
  const auto staleness = static_cast<std::size_t>(job.exchange.staleness.value_or(kUnbounded));
  const bool as_one_exchange =
      method.pattern->messages != Messages::gossip || plan.schedule.period() == exchanged.size();
  return {as_one_exchange ? exchanged
                          : topology::gossip_traffic(plan.schedule, parts, framing, method.pattern->vectors),
          std::min(staleness, kUnbounded)};
}

std::vector<double> request_rates(const Plan& plan, std::span<const double> step,
                                  const topology::LinkTable& links, double bytes) {
  const topology::Schedule& schedule = plan.schedule;
  const std::size_t peers = schedule.peers();
  std::vector<double> share(peers * peers, 0), rates(peers * peers, 0);
  for (Round t = 0; t < schedule.period(); ++t)
    for (PeerId i = 0; i < peers; ++i) {
      const std::vector<PeerId> there = neighbours(schedule.at(t), i);
      for (const PeerId j : there)
        share[i * peers + j] += 1 / static_cast<double>(there.size() * schedule.period());
    }
  for (PeerId i = 0; i < peers; ++i) {
    double rounds = 1;  // from one request to the next
    for (PeerId j = 0; j < peers; ++j)
      if (const double p = share[i * peers + j]; p > 0)
        rounds += p * (std::max(1.0, std::ceil(round_trip(links, i, j, bytes) / step[i])) - 1);
    for (PeerId j = 0; j < peers; ++j) rates[i * peers + j] = share[i * peers + j] / rounds;
  }
  return rates;
}

std::vector<double> pairing_rates(const Plan& plan, std::span<const double> requests,
                                  std::span<const double> step, const topology::LinkTable& links,
                                  double bytes) {
  const std::size_t peers = plan.schedule.peers();
  // The share of time in which a request from j to i is under way.
  const auto asks = [&](PeerId j, PeerId i) {
    return std::min(1.0, requests[j * peers + i] * round_trip(links, i, j, bytes) / step[j]);
  };
  std::vector<double> pairings(peers * peers, 0);
  for (PeerId i = 0; i < peers; ++i)
    for (PeerId j = 0; j < peers; ++j)
      if (i != j) {
        const double there = requests[i * peers + j], back = requests[j * peers + i];
        pairings[i * peers + j] = there + back - (there * asks(j, i) + back * asks(i, j)) / 2;
      }
  return pairings;
}

Consensus consensus_of(const Method& method, const Plan& plan, std::span<const double> pairings) {
  const topology::Schedule& schedule = plan.schedule;
  const auto steps = method.needs.outer ? static_cast<double>(local_steps(plan.exchange)) : 1.0;
  switch (method.pattern->mixing) {
    case Mixing::matrix:
      return of_schedule(schedule);
    case Mixing::estimates:
      return of_schedule(topology::damped(schedule, plan.gamma));
    case Mixing::outer:
      return of_schedule(one_mean(schedule) ? schedule : topology::damped(schedule, outer_shares(schedule)),
                         steps);
    case Mixing::pull:
      return of_pull(schedule, {plan.gamma, plan.outer_momentum}, steps);
    case Mixing::pairs:
      return of_pairs(schedule.peers(), pairings);
    case Mixing::relay: {
      const double deep = std::max<double>(1, static_cast<double>(topology::diameter(schedule)));
      return {deep, deep};
    }
    case Mixing::full:
      return {steps, steps};
  }
  return {};
}

}  // namespace gossamer::node
