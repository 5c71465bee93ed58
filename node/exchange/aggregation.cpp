#include "aggregation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "text.h"

namespace gossamer::node {
namespace {

constexpr const char* kMixing = "nnm+";

constexpr std::array kPeerWeights{
    optim::NamedHelp{"samples", "weighted sum by rows per step; symmetric graphs"},
    optim::NamedHelp{"throughput", "weighted sum by the peers' stated samples/s; symmetric graphs"},
};

}  // namespace

std::span<const optim::NamedHelp> peer_weight_table() { return kPeerWeights; }

bool weighs_peers(const std::string& aggregate) {
  return std::any_of(kPeerWeights.begin(), kPeerWeights.end(),
                     [&](const optim::NamedHelp& row) { return aggregate == row.name; });
}

std::vector<std::string> aggregate_names() {
  std::vector<std::string> names{"weighted"};
  for (const auto& row : kPeerWeights) names.emplace_back(row.name);
  for (const auto& row : optim::aggregator_table())
    if (names[0] != row.name) names.emplace_back(row.name);
  return names;
}

std::string check_aggregate(const std::string& text) {
  if (weighs_peers(text)) return text;
  std::string name = text.substr(0, text.find(':'));
  if (name.starts_with(kMixing)) name = name.substr(std::string(kMixing).size());
  const auto names = aggregate_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw std::invalid_argument(fmt::format(
        "found {}; expected one of {}, with {} in front of the robust ones for nearest-neighbour mixing{}",
        in_quotes(text), join(names, ", "), kMixing, did_you_mean(name, names)));
  return optim::describe_aggregator(text).spec;
}

RuleScope rule_scope(const std::string& aggregate) {
  if (aggregate == "weighted" || weighs_peers(aggregate)) return RuleScope::none;
  return optim::describe_aggregator(aggregate).by_entry ? RuleScope::parcel : RuleScope::model;
}

bool is_vote(const std::string& aggregate) {
  return rule_scope(aggregate) != RuleScope::none && optim::describe_aggregator(aggregate).of_signs;
}

}  // namespace gossamer::node
