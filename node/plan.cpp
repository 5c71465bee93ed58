#include <fmt/format.h>

#include <array>
#include <cmath>

#include "exchange.h"

namespace gossamer::node {
namespace {

using Factory = std::unique_ptr<Exchange> (*)(ExchangeHost&);
struct Method {
  optim::NamedHelp row;
  Factory make;
};
constexpr std::array kMethods{
    Method{{"none", "no messages: every peer trains alone (the control in every comparison)"}, make_none},
    Method{{"allreduce",
            "average gradients over all peers before the step; graph full (any codec) or ring (dense)"},
           make_allreduce},
    Method{{"dpsgd",
            "step, then average dense parameters with neighbours (D-PSGD); any graph with doubly stochastic "
            "weights"},
           make_dpsgd},
    Method{
        {"choco",
         "compressed gossip of parameter differences (CHOCO-SGD); static symmetric graph, contractive codec"},
        make_choco},
};
constexpr std::array kRows{kMethods[0].row, kMethods[1].row, kMethods[2].row, kMethods[3].row};

[[noreturn]] void refuse(const Job& job, const std::string& what) {
  throw ConfigError(fmt::format("{}: {}", job.path, what));
}

std::string codec_name(const std::string& spec) { return spec.substr(0, spec.find(':')); }

/// Weights by samples, b_i the batch of peer i: M_ij = W_ij b_j / max(s_i, s_j), s_i = Σ_k W_ik b_k, the rest
/// to M_ii. Where all neighbourhoods weigh alike (a full graph) these are W's rows weighted by samples and
/// renormalised; the maximum is Metropolis and Hastings' correction elsewhere. With W symmetric b_i M_ij =
/// b_j M_ji, so that mixing keeps the mean weighted by samples, Σ b_i x_i / Σ b_i.
topology::Schedule by_samples(const topology::Schedule& schedule, const std::vector<PeerEntry>& peers) {
  const auto batch = [&](PeerId i) { return static_cast<double>(peers[i].batch); };
  std::vector<topology::MixingMatrix> cycle;
  for (std::size_t t = 0; t < schedule.period(); ++t) {
    const auto& w = schedule.at(t);
    std::vector<double> sums(w.peers());
    for (PeerId i = 0; i < w.peers(); ++i) {
      sums[i] = w.self_weight(i) * batch(i);
      for (const auto& e : w.in(i)) sums[i] += e.weight * batch(e.peer);
    }
    std::vector<std::vector<topology::Edge>> rows(w.peers());
    for (PeerId i = 0; i < w.peers(); ++i)
      for (const auto& e : w.in(i))
        rows[i].push_back(
            {e.peer, static_cast<float>(e.weight * batch(e.peer) / std::max(sums[i], sums[e.peer]))});
    cycle.emplace_back(std::move(rows));
  }
  return topology::Schedule(std::move(cycle));
}

bool every(const topology::Schedule& s, bool (topology::MixingMatrix::*property)() const) {
  for (std::size_t t = 0; t < s.period(); ++t)
    if (!(s.at(t).*property)()) return false;
  return true;
}

bool sends(const topology::MixingMatrix& w, PeerId from, PeerId to) {
  const auto out = w.out(from);
  return std::find(out.begin(), out.end(), to) != out.end();
}

bool complete(const topology::Schedule& s) {
  for (PeerId i = 0; i < s.peers(); ++i)
    if (s.at(0).out(i).size() + 1 != s.peers()) return false;
  return !s.time_varying();
}

bool has_ring(const topology::Schedule& s) {
  const auto peers = static_cast<PeerId>(s.peers());
  for (PeerId i = 0; peers > 1 && i < peers; ++i)
    if (!sends(s.at(0), i, (i + 1) % peers)) return false;
  return !s.time_varying();
}

void check_allreduce(const Job& job, const Plan& plan) {
  if (job.exchange.staleness != std::optional<std::uint64_t>(0))
    refuse(job,
           "method 'allreduce' needs exchange.staleness = 0: a sum over all peers is complete only when "
           "every peer "
           "has sent, so there is nothing to be late with; use staleness = 0, or method 'dpsgd' or 'choco'");
  if (plan.codec.exact && !has_ring(plan.schedule))
    refuse(job,
           fmt::format(
               "method 'allreduce' sends along the ring of peers in file order, and graph '{}' lacks one of "
               "its edges; use graph.kind 'ring' or 'full', or method 'dpsgd'",
               job.graph.kind));
  if (!plan.codec.exact && !complete(plan.schedule))
    refuse(job,
           fmt::format(
               "method 'allreduce' with codec '{}' needs an edge between every two peers (slices go straight "
               "to their owners), and graph '{}' has not; use graph.kind 'full', codec 'dense' on a ring, "
               "or method 'choco'",
               job.exchange.codec, job.graph.kind));
}

void check_dpsgd(const Job& job, const Plan& plan) {
  if (!plan.codec.exact)
    refuse(job,
           fmt::format(
               "method 'dpsgd' exchanges whole parameters, and those do not converge under a lossy codec "
               "('{}'); use codec 'dense', or method 'choco' for compressed gossip",
               job.exchange.codec));
  if (!every(plan.schedule, &topology::MixingMatrix::doubly_stochastic) &&
      job.exchange.aggregate != "samples")
    refuse(job,
           fmt::format(
               "method 'dpsgd' needs weights whose columns sum to 1 too, or the mean of the peers drifts to "
               "those with heavy columns; graph '{}' with weights '{}' has not; use graph.weights = "
               "'metropolis'",
               job.graph.kind, job.graph.weights));
}

void check_choco(const Job& job, const Plan& plan, const topology::Schedule& mixing) {
  if (mixing.time_varying())
    refuse(job,
           fmt::format(
               "method 'choco' keeps an estimate of every neighbour from all its messages, which a "
               "time-varying graph ('{}') breaks: a peer that is a neighbour only in some rounds misses the "
               "others' deltas; use method 'dpsgd', or a static graph such as 'exponential' with "
               "graph.directed = false",
               job.graph.kind));
  if (!mixing.at(0).symmetric())
    refuse(job,
           fmt::format(
               "method 'choco' needs a symmetric mixing matrix (W_ij = W_ji), and graph '{}' with weights "
               "'{}' has not; use graph.directed = false with weights 'metropolis', or method 'dpsgd'",
               job.graph.kind, job.graph.weights));
  if (!plan.codec.contractive)
    refuse(job,
           fmt::format(
               "method 'choco' needs a contractive codec (its error below the size of what it encodes), and "
               "'{}' is not; use 'qsgd:bits=4,norm=max', 'onebit_scaled' or 'topk'",
               job.exchange.codec));
}

}  // namespace

std::span<const optim::NamedHelp> method_table() { return kRows; }

std::unique_ptr<Exchange> make_exchange(ExchangeHost& host) {
  for (const auto& m : kMethods)
    if (host.plan().exchange.method == m.row.name) return m.make(host);
  throw ConfigError(fmt::format("unknown exchange.method '{}'", host.plan().exchange.method));
}

double default_gamma(const std::string& codec) {
  const std::string name = codec_name(codec);
  if (name == "dense" || name == "fp16" || name == "bf16") return 1.0;
  if (name == "topk" || name == "randk")
    return std::min(0.5, 2 * std::stod(codec.substr(codec.find("density=") + 8)));
  return 0.5;  // 1-bit codecs, qsgd with a max norm, intq
}

Plan make_plan(const Job& job, PeerId self) {
  const auto mixing = topology::make_schedule(job.graph);
  const bool samples = job.exchange.aggregate == "samples";
  Plan plan{job.exchange,
            job.exchange.gamma.value_or(default_gamma(job.exchange.codec)),
            compress::make_codec(job.exchange.codec)->traits(),
            samples ? by_samples(mixing, job.peers) : mixing,
            {},
            {},
            self};
  double rows = 0;
  for (const auto& p : job.peers) rows += static_cast<double>(p.batch);
  for (const auto& p : job.peers) plan.sample_share.push_back(static_cast<double>(p.batch) / rows);
  const std::string& method = job.exchange.method;
  if (job.exchange.overlap && method != "dpsgd")
    refuse(job, fmt::format("exchange.overlap = true is a form of method 'dpsgd' only; found method '{}'",
                            method));
  if (samples && !every(mixing, &topology::MixingMatrix::symmetric))
    refuse(job,
           fmt::format(
               "exchange.aggregate = 'samples' needs a symmetric mixing matrix to keep the mean weighted by "
               "samples, and graph '{}' has not; use aggregate = 'weighted', or an undirected graph",
               job.graph.kind));
  if (method == "allreduce") check_allreduce(job, plan);
  if (method == "dpsgd") check_dpsgd(job, plan);
  if (method == "choco") check_choco(job, plan, mixing);
  return plan;
}

}  // namespace gossamer::node
