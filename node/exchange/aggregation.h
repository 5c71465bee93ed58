#pragma once
// The key exchange.aggregate says by what rule a peer makes one vector of those of its neighbourhood.
#include <span>
#include <string>
#include <vector>

#include "exchange.h"
#include "gossamer/optim/aggregate.h"

namespace gossamer::node {

/// Weighted sums in which peers weigh unequally: the key's values.
std::span<const optim::NamedHelp> peer_weight_table();
/// Whether the key is one of these; else all peers weigh alike.
bool weighs_peers(const std::string& aggregate);

/// weighted, those of peer_weight_table() and the rules of optim/aggregate.h.
std::vector<std::string> aggregate_names();
/// The canonical text of the key's value: "median" → "median:f=0". Throws std::exception for a wrong one.
std::string check_aggregate(const std::string& text);

/// Whether the key asks for a rule in place of a weighted sum, and how much of the model that must see at
/// once.
RuleScope rule_scope(const std::string& aggregate);
/// Whether the key asks for the majority of signs, to which a codec may send signs alone.
bool is_vote(const std::string& aggregate);

/// Weights of a neighbourhood's n vectors for the rule: all alike, because what rules bear is counted in
/// peers.
inline std::vector<float> equal_weights(std::size_t n) {
  return std::vector<float>(n, 1.0f / static_cast<float>(n));
}

}  // namespace gossamer::node
