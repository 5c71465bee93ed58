#pragma once
// The key exchange.aggregate: by what rule a peer makes one vector of those of its neighbourhood.
#include <span>
#include <string>
#include <vector>

#include "exchange.h"
#include "gossamer/optim/aggregate.h"

namespace gossamer::node {

struct Method;

/// A weighted sum in which peers weigh unlike: what each brings to the mean that mixing keeps.
struct PeerWeight {
  optim::NamedHelp row;  ///< name: the key's value
  /// Of one peer, above 0. Throws ConfigError where the job does not state it.
  double (*of)(const Job& job, const PeerEntry& peer);
};
std::span<const PeerWeight> peer_weight_table();
/// nullptr where the key asks for none: all peers weigh alike.
const PeerWeight* find_peer_weight(const std::string& aggregate);

/// weighted, those of peer_weight_table() and the rules of optim/aggregate.h.
std::vector<std::string> aggregate_names();
/// The canonical text of the key's value: "median" → "median:f=0". Throws std::exception for a wrong one.
std::string check_aggregate(const std::string& text);

/// Whether the key asks for a rule in place of a weighted sum, and how much of the model that must see at
/// once.
RuleScope rule_scope(const std::string& aggregate);
/// Whether the key asks for the majority of signs, to which a codec may send signs alone.
bool is_vote(const std::string& aggregate);
/// The codec's messages are bare signs, so that a sum of them is a vote.
bool sends_votes(const std::string& codec);

/// Throws ConfigError where the rule does not go with the method, codec or staleness, or cannot bear its f
/// wrong vectors in every neighbourhood; names the first peer where it cannot. schedule: before local steps.
void check_rule(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule);

/// Weights of a neighbourhood's n vectors for the rule: all alike, because what rules bear is counted in
/// peers.
inline std::vector<float> equal_weights(std::size_t n) {
  return std::vector<float>(n, 1.0f / static_cast<float>(n));
}

}  // namespace gossamer::node
