#pragma once
// A Pattern says what an exchange method sends in a round, and what its rounds count for.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange.h"
#include "gossamer/node/job.h"
#include "gossamer/topology/cost.h"

namespace gossamer::node {

struct Pattern {
  std::string_view method;
  enum class Messages {
    gossip,  ///< all parts to every out-neighbour of the round
    pairs,   ///< a request to one neighbour, and its answer; nobody waits for them
    tree,    ///< all parts up a binomial tree and down again
    reduce,  ///< dense: slices around the ring; coded: slices to their owners and back
  } messages = Messages::gossip;
  enum class Mixing {
    matrix,     ///< x ← W x, or the schedule's rounds among local steps
    estimates,  ///< of which a share gamma is followed
    outer,      ///< DiLoCo's: W, with as much of the own vector as keeps outer momentum stable
    pull,       ///< NoLoCo's: a momentum of γ (W − I)
    pairs,      ///< means of two that are drawn
    relay,      ///< everyone's sum after as many rounds as the tree is deep
    full,       ///< the mean of all, every round
  } mixing = Mixing::matrix;
  double vectors = 1;  ///< that a neighbour is sent of each part
  /// Of the message of that many entries; null: the codec's.
  double (*bytes)(const ExchangeSettings& exchange, std::size_t entries) = nullptr;
  bool corrected = false;  ///< its steps, for heterogeneous data
};

/// Of these methods, or of all that are known. Throws ConfigError for an unknown method and for one without a
/// known cost.
std::vector<Pattern> patterns_of(std::span<const std::string> methods);

/// The model's messages under the job's codec and method: see model_parts.
std::vector<topology::Part> pattern_parts(const Pattern& pattern, const Job& job,
                                          const std::vector<optim::Layer>& layers);

/// What is sent, if all parts are exchanged every round. algorithm: of a dense all-reduce.
topology::Traffic exchange_traffic(const Pattern& pattern, const Job& job, const std::string& algorithm,
                                   std::span<const topology::Part> parts, const topology::Framing& framing);

/// What is sent, local steps and fragments included, and after how many rounds it is waited for.
struct RoundTraffic {
  topology::Traffic traffic;
  std::size_t staleness = 0;
};
RoundTraffic round_traffic(const Pattern& pattern, const Job& job, const Plan& plan,
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
Consensus consensus_of(const Pattern& pattern, const Plan& plan, std::span<const double> pairings);

}  // namespace gossamer::node
