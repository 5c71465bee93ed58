// What an aggregation rule goes with.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "aggregation.h"
#include "soundness.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostNames = 8;  ///< neighbours that a message lists

/// "peer 'c' with its neighbours b, d (round 1 of the graph)"
std::string neighbourhood(const Job& job, const topology::Schedule& schedule, std::size_t round,
                          PeerId peer) {
  std::vector<std::string> names;
  const auto row = schedule.at(round).in(peer);
  for (std::size_t e = 0; e < std::min(row.size(), kMostNames); ++e)
    names.push_back(job.peers[row[e].peer].name);
  std::string list = join(names, ", ");
  if (row.size() > kMostNames) list += fmt::format(" … ({} in all)", row.size());
  const std::string when = schedule.time_varying() ? fmt::format(" (round {} of the graph)", round) : "";
  return fmt::format("peer '{}' with its neighbours {}{}", job.peers[peer].name, list, when);
}

void check_neighbourhoods(const Job& job, const topology::Schedule& schedule) {
  std::set<std::size_t> fine;
  for (std::size_t t = 0; t < schedule.period(); ++t)
    for (PeerId i = 0; i < schedule.peers(); ++i) {
      const std::size_t n = schedule.at(t).in(i).size() + 1;
      if (n == 1 || !fine.insert(n).second) continue;  // who hears nobody keeps what it has
      try {
        optim::make_aggregator(job.exchange.aggregate, n);
      } catch (const optim::OptimError& e) {
        throw ConfigError(fmt::format("{}: exchange.aggregate: {}: {}", job.path,
                                      neighbourhood(job, schedule, t, i), e.what()));
      }
    }
}

}  // namespace

void check_rule(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule) {
  const std::string& spec = job.exchange.aggregate;
  if (plan.rule == RuleScope::none) return;
  const optim::AggregatorInfo rule = optim::describe_aggregator(spec);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("{}: method '{}' with exchange.aggregate = '{}': {}", job.path,
                                  method.row.name, spec, why));
  };
  switch (method.needs.rules) {
    case Needs::Rules::none:
      refuse(
          "this method is made of weighted sums, in which nobody's vector stands by itself; use method "
          "'broadcast' (gradients, graph 'full') or 'dpsgd' (parameters), or aggregate = 'weighted'");
      break;
    case Needs::Rules::gradients:
      if (rule.around_own)
        refuse(
            "clipping around the own gradient gives every peer another step, and their parameters drift "
            "apart; use 'centered_clip', or method 'dpsgd'");
      break;
    case Needs::Rules::parameters:
      if (rule.of_signs)
        refuse("signs of parameters are no parameters; use method 'broadcast', or aggregate = 'median'");
      break;
  }
  if (job.exchange.staleness != std::optional<std::uint64_t>(0))
    refuse(
        "a neighbour that has not been heard makes the neighbourhood smaller than what the rule counts on; "
        "use staleness = 0, or aggregate = 'weighted'");
  if (plan.rule == RuleScope::parcel && !rule.of_signs && !plan.codec.exact)
    refuse(
        fmt::format("the middle of values that codec '{}' rounds at random, mostly to 0, is 0; use codec "
                    "'dense', or a rule that chooses whole vectors such as 'krum'",
                    job.exchange.codec));
  if (rule.of_signs && !plan.codec.exact && !plan.codec.votes)
    refuse(fmt::format("counts signs, and codec '{}' may change them; use codec 'sign_vote' or 'dense'",
                       job.exchange.codec));
  check_neighbourhoods(job, schedule);
}

}  // namespace gossamer::node
