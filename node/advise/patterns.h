#pragma once
// These functions work out what an exchange method sends, and what its rounds count for, by its Pattern
// (method.h).
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/node/job.h"
#include "gossamer/topology/cost.h"
#include "method.h"

namespace gossamer::node {

/// These methods, or all whose cost is known. Throws ConfigError for an unknown method and for one without a
/// known cost.
std::vector<const Method*> methods_of_known_cost(std::span<const std::string> names);

/// The model's messages under the job's codec and method: see model_parts.
std::vector<topology::Part> pattern_parts(const Method& method, const Job& job,
                                          const std::vector<optim::Layer>& layers);

/// What is sent, if all parts are exchanged every round. algorithm: of a dense all-reduce.
topology::Traffic exchange_traffic(const Method& method, const Job& job, const Plan& plan,
                                   const std::string& algorithm, std::span<const topology::Part> parts,
                                   const topology::Framing& framing);

/// What is sent, local steps and fragments included, and after how many rounds it is waited for.
struct RoundTraffic {
  topology::Traffic traffic;
  std::size_t staleness = 0;
};
RoundTraffic round_traffic(const Method& method, const Job& job, const Plan& plan,
                           const topology::Traffic& exchanged, std::span<const topology::Part> parts,
                           const std::vector<optim::Layer>& layers, const topology::Framing& framing);

/// Requests of peer i to peer j in a round of method pairwise, P × P: one neighbour of the round is drawn at
/// a time, and asked again when the answer of the last has come, at the earliest a step later. bytes: of the
/// whole model on the wire; step: seconds of each peer's; links: placed as the plan's peers are.
std::vector<double> request_rates(const Plan& plan, std::span<const double> step,
                                  const topology::LinkTable& links, double bytes);
/// Of both peers' requests, those that meet half-way counted once: one is declined.
std::vector<double> pairing_rates(const Plan& plan, std::span<const double> requests,
                                  std::span<const double> step, const topology::LinkTable& links,
                                  double bytes);

/// How fast a method's rounds bring peers together.
struct Consensus {
  double delay = 1;   ///< topology::consensus_delay; 1 for a full reduce
  double rounds = 1;  ///< until the worst start's disagreement is 1e-6 of what it was; −1: never
};
/// pairings: as pairing_rates has them, for method pairwise alone.
Consensus consensus_of(const Method& method, const Plan& plan, std::span<const double> pairings);

}  // namespace gossamer::node
