#include "method.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gossamer/node/errors.h"
#include "row_gossip.h"
#include "text.h"

namespace gossamer::node {
namespace {

using Partial = Needs::Partial;

// One row a method; each stands at the end of its own file.
constexpr std::array kMethods{&kNoneMethod,           &kAllreduceMethod,
                              &kBroadcastMethod,      &kTopkAllgatherMethod,
                              &kGtopkMethod,          &kDpsgdMethod,
                              &kLocalSgdMethod,       &kDilocoMethod,
                              &kNolocoMethod,         &kSparseLocoMethod,
                              &kEpidemicMethod,       &kChocoMethod,
                              &kDeepSqueezeMethod,    &kGradientTrackingMethod,
                              &kExactDiffusionMethod, &kRelaySumMethod,
                              &kPairwiseMethod,       &kMoniquaMethod,
                              &kPushSumMethod,        &kEnsembleMethod};

/// The keys that the method names, blanks between them.
std::string keys_of(const Method& method) {
  std::string keys = method.needs.reads;
  for (const OwnKey& own : method.keys) keys += fmt::format("{}{}", keys.empty() ? "" : " ", own.name());
  return keys;
}

/// And those that several methods read without naming them.
std::string all_keys_of(const Method& method) {
  std::string keys = keys_of(method);
  const auto add = [&](const char* more) { keys += fmt::format("{}{}", keys.empty() ? "" : " ", more); };
  if (method.needs.outer) add("fragments outer_delay");
  if (method.needs.sparse_feedback) add("momentum_correction clip density_warmup layer_density");
  return keys;
}

}  // namespace

std::span<const Method* const> methods() { return kMethods; }
std::span<const optim::NamedHelp> method_table() {
  static const auto keys = [] {
    std::array<std::string, kMethods.size()> all;
    std::transform(kMethods.begin(), kMethods.end(), all.begin(),
                   [](const Method* m) { return keys_of(*m); });
    return all;
  }();
  static const auto rows = [] {
    std::array<optim::NamedHelp, kMethods.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {kMethods[i]->row.name, kMethods[i]->row.help, keys[i].c_str()};
    return all;
  }();
  return rows;
}

bool closes_early(const ExchangeSettings& e) { return e.backup > 0 || e.straggler == "without"; }

bool goes_by_order(const ExchangeSettings& e) {
  return !e.staleness || closes_early(e) || !find_method(e.method).needs.may_wait;
}

bool reads(const Method& method, std::string_view key) {
  if (key.starts_with("exchange.")) key.remove_prefix(std::string_view("exchange.").size());
  return optim::reads(method_table(), method.row.name, key);
}

bool has_algorithms(const Method& method, const Plan& plan) {
  return method.pattern && method.pattern->messages == Pattern::Messages::reduce && plan.codec.exact;
}

std::uint64_t local_steps(const ExchangeSettings& e) {
  const Method& method = find_method(e.method);
  return reads(method, "local_steps") ? e.local_steps.value_or(method.usual_local_steps) : 1;
}

bool steps_alone(const ExchangeSettings& e) {
  const Method& method = find_method(e.method);
  return !begins_alike(method) && method.steps_alone && !e.overlap;
}
bool begins_alike(const Method& method) {
  using enum Pattern::Mixing;
  return method.pattern && (method.pattern->mixing == full || method.pattern->mixing == outer);
}

bool holds_mass(const Method& method) { return method.invariants.own == MethodInvariants::Own::mass; }

bool merges_sides(const Method& method) {
  return !begins_alike(method) && !method.needs.keeps_apart && !holds_mass(method);
}

const Method& find_method(std::string_view name) {
  std::vector<std::string> names;
  for (const Method* m : kMethods) {
    if (name == m->row.name) return *m;
    names.emplace_back(m->row.name);
  }
  throw ConfigError(fmt::format("unknown exchange method '{}'; expected one of {}{}", name, join(names, ", "),
                                did_you_mean(std::string(name), names)));
}

std::unique_ptr<Exchange> make_exchange(ExchangeHost& host) {
  auto parcels = find_method(host.plan().exchange.method).make(host);
  if (!host.plan().rows) return parcels;
  return std::make_unique<RowGossip>(host, std::move(parcels));
}

std::vector<PeerId> Plan::owed_by(PeerId peer) const {
  std::vector<PeerId> all;
  for (const auto& [from, to] : former)
    if (from == peer) all.push_back(to);
  return all;
}

std::vector<PeerId> Plan::owing(PeerId peer) const {
  std::vector<PeerId> all;
  for (const auto& [from, to] : former)
    if (to == peer) all.push_back(from);
  return all;
}

Buffers buffers_of(const Plan& plan) {
  const Method& method = find_method(plan.exchange.method);
  return method.buffers ? method.buffers(plan) : Buffers{};
}

bool serves_after_end(const Plan& plan) {
  return plan.rows || find_method(plan.exchange.method).serves_after_end;
}

std::string method_text(const Method& method) {
  constexpr std::array kGraphs{
      "any",
      "an edge between every two peers",
      "full; with codec 'dense' also hypercube, or any with the ring of peers in file order",
      "a tree",
      "an edge from every peer i > 0 to i without its lowest set bit: full, or hypercube",
      "full, with the same weights for all"};
  constexpr std::array kWeights{"any: rows sum to 1", "rows and columns sum to 1", "symmetric"};
  constexpr std::array kCodes{"any",
                              "exact: dense",
                              "unbiased: qsgd, randk:scale=1, intq:rounding=stochastic ...",
                              "contractive: onebit_scaled, topk, qsgd:bits=4,norm=max ...",
                              "contractive, or threshold",
                              "the largest entries: topk",
                              "unbiased; contractive or threshold (under error feedback)",
                              "error at most 15 %: dense, fp16, bf16, intq:bits=4, qsgd:bits=8 ..."};
  constexpr std::array kRules{"weighted sums only", "any but self_clip; vote with codec sign_vote",
                              "any but vote"};
  constexpr std::array kShapes{"any, of one shape", "any; peers' hidden sizes may differ",
                               "classifiers; peers' hidden sizes may differ"};
  const Needs& n = method.needs;
  const auto at = [](const auto& texts, auto choice) { return texts[static_cast<std::size_t>(choice)]; };
  std::string code = at(kCodes, n.code);
  if (n.code_of_mean)
    code += fmt::format("; on a full graph with equal weights {}", at(kCodes, *n.code_of_mean));
  const std::string keys = all_keys_of(method);
  std::string staleness = !n.may_be_stale ? "0" : n.may_wait ? "0, bounded or unbounded" : "unbounded";
  if (method.invariants.newest_only)
    staleness +=
        "; models of D rounds ago hold the mean back, so that steps count 1 / (1 + (1 - W_ii) D) of "
        "themselves:\n             where D is large (staleness_mean of the summary) 'pairwise' and "
        "'push_sum' lose nothing";
  if (method.pattern && method.pattern->mixing == Pattern::Mixing::relay)
    staleness +=
        "; models come as many rounds late as the tree has edges between two peers, so that steps count\n"
        "             1 / (1 + D) of themselves, D the mean over all pairs: use a flat tree ('star', a "
        "larger graph.degree)";
  return fmt::format(
      "{}: {}\n\n  graph      {}\n  weights    {}\n  schedule   {}\n  codec      {}\n  aggregate  {}\n"
      "  staleness  {}\n  backup     {}\n  delivery   {}\n  optimizer  {}\n  models     {}\n  keys       "
      "{}\n",
      method.row.name, method.row.help, at(kGraphs, n.graph), at(kWeights, n.weights),
      n.may_vary ? "static or time-varying" : "static", code, at(kRules, n.rules), staleness,
      n.partial == Partial::no ? "no" : "yes",
      n.may_lose ? "reliable, or best_effort with staleness unbounded" : "reliable",
      n.plain_sgd ? "sgd" : "any",
      at(kShapes, !n.heterogeneous ? 0
                  : n.classifier   ? 2
                                   : 1),
      keys.empty() ? "none of its own" : keys);
}

}  // namespace gossamer::node
