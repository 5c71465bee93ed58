#include "plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "aggregation.h"
#include "allreduce_cost.h"
#include "codec_schedule.h"
#include "coding_error.h"
#include "consensus_step.h"
#include "gossamer/topology/report.h"
#include "peer_weights.h"
#include "soundness.h"

namespace gossamer::node {
namespace {

/// Of a code, from which on full reduces send velocities. One bit has .6, intq:bits=2 .5, intq:bits=4 .12.
constexpr double kCoarseError = 0.3;
/// Rounds that sparse codes hold an entry back, at the most, over those that a momentum goes on for, 1/(1 −
/// m). topk_allgather with momentum .9, an MLP on 8 peers, test loss .55 where dense: densities .01, .003,
/// .001, .0003 and .0001 .55, .59, .94, 3.8 and 21; with sgd at the same rate .0003 .61 after 1500 rounds
/// for 9.2.
constexpr double kMostTimesLate = 200;
/// γ by the exchanges of a run, below which they average next to nothing.
constexpr double kLeastMixed = 2;

[[noreturn]] void refuse(const Job& job, const std::string& what) {
  throw ConfigError(fmt::format("{}: {}", job.path, what));
}

/// What exchange.gamma is by default, and up to which it was found stable.
ConsensusStep method_gammas(const Method& method, const ExchangeSettings& exchange, double outer_momentum,
                            const compress::Traits& codec, const topology::Schedule& schedule) {
  switch (method.needs.gamma) {
    case Needs::Gamma::none:
      return {};
    case Needs::Gamma::own:
      return {method.own_gamma(exchange, outer_momentum), 1};
    case Needs::Gamma::differences:
      return consensus_step(codec, topology::largest_pull(schedule), Gossiped::differences);
    case Needs::Gamma::parameters:
      return consensus_step(codec, topology::largest_pull(schedule), Gossiped::parameters);
  }
  return {};
}

/// Weights by peer, b_i of peer i (its batch, its throughput): M_ij = W_ij b_j / max(s_i, s_j), s_i =
/// Σ_k W_ik b_k, the rest to M_ii. Where all neighbourhoods weigh alike (a full graph) these are W's rows
/// weighted by b and renormalised; the maximum is Metropolis and Hastings' correction elsewhere. With W
/// symmetric b_i M_ij = b_j M_ji, so that mixing keeps the mean weighted by b, Σ b_i x_i / Σ b_i.
topology::Schedule by_peer(const topology::Schedule& schedule, const std::vector<double>& b) {
  std::vector<topology::MixingMatrix> cycle;
  for (std::size_t t = 0; t < schedule.period(); ++t) {
    const auto& w = schedule.at(t);
    std::vector<double> sums(w.peers());
    for (PeerId i = 0; i < w.peers(); ++i) {
      sums[i] = w.self_weight(i) * b[i];
      for (const auto& e : w.in(i)) sums[i] += e.weight * b[e.peer];
    }
    std::vector<std::vector<topology::Edge>> rows(w.peers());
    for (PeerId i = 0; i < w.peers(); ++i)
      for (const auto& e : w.in(i))
        rows[i].push_back(
            {e.peer, static_cast<float>(e.weight * b[e.peer] / std::max(sums[i], sums[e.peer]))});
    cycle.emplace_back(std::move(rows));
  }
  return topology::Schedule(std::move(cycle));
}

bool symmetric(const topology::Schedule& s) {
  for (std::size_t t = 0; t < s.period(); ++t)
    if (!s.at(t).symmetric()) return false;
  return true;
}

/// The schedule's rounds, each after steps − 1 rounds in which nobody sends.
topology::Schedule with_local_steps(const topology::Schedule& schedule, std::size_t steps) {
  if (steps == 1) return schedule;
  std::vector<topology::MixingMatrix> cycle;
  for (std::size_t t = 0; t < schedule.period(); ++t) {
    cycle.insert(cycle.end(), steps - 1,
                 topology::MixingMatrix(std::vector<std::vector<topology::Edge>>(schedule.peers())));
    cycle.push_back(schedule.at(t));
  }
  return topology::Schedule(std::move(cycle));
}

void check_dense_rounds(const Job& job, const compress::Traits& codec) {
  const auto refuse_with = [&](const char* why) {
    throw ConfigError(fmt::format("{}: exchange.dense_rounds = {} with codec '{}': {}; leave it out",
                                  job.where("exchange.dense_rounds"), job.exchange.dense_rounds,
                                  job.exchange.codec, why));
  };
  if (job.exchange.dense_rounds == 0) return;
  if (codec.exact) refuse_with("every round is dense");
  if (codec.votes) refuse_with("a vote counts signs in every round");
}

bool follows_a_share(const Plan& plan) {
  const auto gamma = find_method(plan.exchange.method).needs.gamma;
  return gamma == Needs::Gamma::differences || gamma == Needs::Gamma::parameters;
}

/// As far as the parcels are known.
bool all_goes_dense(const Plan& plan) {
  return !plan.parcels.empty() && std::ranges::all_of(plan.parcels, [](const Parcel& p) { return p.dense; });
}

}  // namespace

std::string mixing_warning(const Job& job, const Plan& plan, std::uint64_t rounds) {
  const std::uint64_t exchanges = rounds / local_steps(job.exchange);
  const double gamma = all_goes_dense(plan) ? plan.dense_gamma : plan.gamma;
  const double mixed = gamma * static_cast<double>(exchanges);
  if (!follows_a_share(plan) || job.peers.size() == 1 || job.exchange.dense_rounds > 0 ||
      mixed >= kLeastMixed)
    return {};
  return fmt::format(
      "{}: with codec '{}' exchange.gamma is {:.3g}, and in {} exchanges that is too little for peers to "
      "come near their mean: it takes about {:.0f}; use {}, or a longer run",
      job.path, job.exchange.codec, gamma, exchanges, std::ceil(kLeastMixed / gamma),
      job.exchange.gamma ? "a larger one" : "a codec that leaves out less");
}

std::string momentum_warning(const Job& job, const Plan& plan) {
  const Needs& needs = find_method(job.exchange.method).needs;
  const auto density = density_of(job.exchange.codec);
  const bool divides =
      optim::optimizer_traits(job.optimizer.kind).adapts_by_second_moment;  // by what came late
  const double decay = divides ? 0 : optim::velocity_decay(job.optimizer).value_or(0);
  const double least = (1 - decay) / kMostTimesLate;
  if (!(needs.codes_gradients || needs.sparse_feedback) || !plan.codec.feedback() || plan.codec.unbiased ||
      decay == 0 || !density || *density >= least || job.peers.size() == 1 || all_goes_dense(plan) ||
      (job.exchange.density_warmup && !job.exchange.density_warmup->empty()) ||
      !job.exchange.layer_density.empty())
    return {};
  return fmt::format(
      "{}: with codec '{}' a gradient's entries are sent about {:.0f} rounds late, and optimizer '{}' "
      "multiplies them by {:.3g}: it may learn little, or diverge; use a density of at least {:.2g}, or "
      "a lower optimizer.learning_rate",
      job.path, job.exchange.codec, 1 / *density, job.optimizer.kind, 1 / (1 - decay), least);
}

bool codes_velocity(const Job& job, const compress::Traits& codec) {
  if (!find_method(job.exchange.method).needs.codes_gradients || !codec.feedback() || codec.unbiased ||
      codec.exact || codec.sparse)
    return false;
  // How coarse a code with a constant bound is depends on the size of the gradients.
  return codec.bounded || coding_error(job.exchange.codec) > kCoarseError;
}

std::string gamma_warning(const Job& job, const Plan& plan) {
  if (!job.exchange.gamma || find_method(job.exchange.method).needs.gamma == Needs::Gamma::none ||
      plan.gamma <= plan.stable_gamma || (follows_a_share(plan) && all_goes_dense(plan)))
    return {};
  return fmt::format(
      "{}: exchange.gamma = {} may well diverge with codec '{}' on graph '{}': up to {:.3g} was found "
      "stable, and \"auto\" is {:.3g}",
      job.path, plan.gamma, job.exchange.codec, job.graph.kind, plan.stable_gamma, plan.usual_gamma);
}

std::vector<std::pair<PeerId, PeerId>> links_out_of_reach(const Job& job,
                                                          const topology::Schedule& schedule) {
  std::vector<std::pair<PeerId, PeerId>> links;
  const auto dials = [&](PeerId p) { return job.peers[p].address.empty(); };
  for (PeerId a = 0; a < schedule.peers(); ++a) {
    if (!dials(a)) continue;
    for (const PeerId b : schedule.links(a))
      if (a < b && dials(b)) links.emplace_back(a, b);
  }
  return links;
}

Plan make_plan(const Job& job, PeerId self) {
  const auto mixing = topology::make_schedule(job.graph);
  if (const auto lost = links_out_of_reach(job, mixing); !lost.empty())
    refuse(job,
           fmt::format("peers '{}' and '{}' are linked, and both can only dial out (bind = \"\"); a link "
                       "needs one end that can be reached: another graph, or an address for one of them",
                       job.peers[lost.front().first].name, job.peers[lost.front().second].name));
  const bool weighted = weighs_peers(job.exchange.aggregate);
  std::vector<double> shares;
  for (const auto& p : job.peers) shares.push_back(peer_weight(job, p));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& s : shares) s /= sum;
  const compress::Traits codec = compress::make_codec(job.exchange.codec)->traits();
  const Method& method = find_method(job.exchange.method);
  const OuterDefaults outer = method.outer_defaults ? method.outer_defaults(codec) : OuterDefaults{};
  const double outer_momentum = job.exchange.outer_momentum.value_or(outer.momentum);
  const topology::Schedule schedule = weighted ? by_peer(mixing, shares) : mixing;
  const ConsensusStep gammas = method_gammas(method, job.exchange, outer_momentum, codec, schedule);
  Plan plan{job.exchange,
            job.exchange.gamma.value_or(gammas.usual),
            gammas.usual,
            gammas.most,
            job.exchange.outer_rate.value_or(outer.rate),
            outer_momentum,
            codec,
            codes_velocity(job, codec) ? optim::velocity_decay(job.optimizer).value_or(0) : 0,
            codec.largest && !optim::optimizer_traits(job.optimizer.kind).keeps_state &&
                job.optimizer.weight_decay == 0,
            schedule,
            std::move(shares),
            {},
            {},
            self,
            rule_scope(job.exchange.aggregate),
            job.run.seed};
  plan.reversible = symmetric(mixing);
  plan.dense_gamma = job.exchange.gamma.value_or(1);
  if (has_algorithms(method, plan)) plan.allreduce = allreduce_cost(job, mixing);
  check_dense_rounds(job, codec);
  if (weighted && !plan.reversible)
    refuse(job, fmt::format(
                    "exchange.aggregate = '{0}' needs a symmetric mixing matrix to keep the mean weighted by "
                    "{0}, and graph '{1}' has not; use aggregate = 'weighted', or an undirected graph",
                    job.exchange.aggregate, job.graph.kind));
  check_method(method, job, plan, mixing);
  check_sparse_gradients(job, plan);
  if (method.refusal)
    if (const std::string why = method.refusal(job.exchange); !why.empty()) refuse(job, why);
  if (method.idle_rounds) plan.schedule = with_local_steps(plan.schedule, local_steps(job.exchange));
  return plan;
}

}  // namespace gossamer::node
