#include "method.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gossamer/node/errors.h"
#include "text.h"

namespace gossamer::node {
namespace {

using Graph = Needs::Graph;
using Weights = Needs::Weights;
using Code = Needs::Code;
using Gamma = Needs::Gamma;
using Partial = Needs::Partial;
using Rules = Needs::Rules;

constexpr const char* kOneSum =
    "a sum over all peers is complete only when every peer has sent, so there is nothing to be late with; "
    "use "
    "staleness = 0, or method 'dpsgd' or 'choco'";
constexpr const char* kAllLinked =
    "every peer sends to every other; use graph.kind 'full', or method 'choco' for compressed gossip";
constexpr const char* kMeanDrifts =
    "or the mean of the peers drifts to those with heavy columns; use graph.weights = 'metropolis'";
constexpr const char* kLockstep =
    "its messages belong to one round; use staleness = 0, or method 'dpsgd' or 'choco'";
constexpr const char* kWholeState =
    "exchanges whole vectors, and those do not converge under a lossy codec; use codec 'dense', or method "
    "'choco' "
    "for compressed gossip";

constexpr const char* kOuterDelay =
    "its messages belong to one exchange; use staleness = 0 and exchange.outer_delay, which lets training go "
    "on while they travel";

constexpr std::array kMethods{
    Method{{"none", "no messages: every peer trains alone (the control in every comparison)"},
           {.keeps_apart = true, .heterogeneous = true},
           make_none},
    Method{{"allreduce",
            "average gradients over all peers before the step; graph full (any codec), ring or hypercube "
            "(dense)"},
           {.graph = Graph::ring_or_complete,
            .may_vary = false,
            .may_be_stale = false,
            .codes_gradients = true,
            .reads = "algorithm aggregate dense_below dense_rounds",
            .why_synchronous = kOneSum},
           make_allreduce},
    Method{{"broadcast",
            "every peer's encoded gradient to every other before the step (QSGD, algorithm 1; biased codecs "
            "under error feedback)"},
           {.graph = Graph::complete,
            .code = Code::averaged,
            .rules = Rules::gradients,
            .may_vary = false,
            .may_be_stale = false,
            .codes_gradients = true,
            .partial = Partial::gradients,
            .reads = "aggregate send_momentum dense_below dense_rounds",
            .why_graph = kAllLinked,
            .why_code = "what it leaves out of a gradient is lost for good; use 'qsgd' or 'onebit_scaled'",
            .why_synchronous = kOneSum},
           make_broadcast},
    Method{
        {"topk_allgather",
         "the same with error feedback whatever the codec, for sparse ones: all k values to all"},
        {.graph = Graph::complete,
         .code = Code::feedback,
         .may_vary = false,
         .may_be_stale = false,
         .codes_gradients = true,
         .partial = Partial::gradients,
         .reads = "aggregate dense_below dense_rounds",
         .why_graph = kAllLinked,
         .why_code =
             "its residual grows without end under error feedback; use 'topk' or 'qsgd:bits=4,norm=max', or "
             "method 'broadcast'",
         .why_synchronous = kOneSum},
        make_topk_allgather},
    Method{{"gtopk", "the k largest entries of the sum of all, selected along a tree of pairs (gTop-k)"},
           {.graph = Graph::halving,
            .code = Code::topk,
            .may_vary = false,
            .may_be_stale = false,
            .reads = "aggregate dense_below",
            .why_graph =
                "every peer i > 0 sends to i without its lowest set bit (1 to 0, 6 to 4); use graph.kind "
                "'full', or 'hypercube' for a power of two of peers",
            .why_code = "every merge keeps a fixed number of the largest entries; use 'topk', or method "
                        "'allreduce' for other codecs",
            .why_synchronous = kOneSum},
           make_gtopk},
    Method{{"dpsgd",
            "step, then average dense parameters with neighbours (D-PSGD); any graph with doubly stochastic "
            "weights"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .rules = Rules::parameters,
            .partial = Partial::parameters,
            .reads = "aggregate overlap",
            .why_weights = kMeanDrifts,
            .why_code = kWholeState},
           make_dpsgd},
    Method{{"local_sgd",
            "exchange.local_steps steps alone, then one round of dpsgd; on a full graph the mean of all"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .rules = Rules::parameters,
            .may_be_stale = false,
            .reads = "aggregate local_steps",
            .why_weights = kMeanDrifts,
            .why_code = kWholeState,
            .why_synchronous = kLockstep},
           make_dpsgd},
    Method{
        {"diloco",
         "local_steps steps, then an outer Nesterov step by what all learned; on other graphs than full, "
         "averaged with neighbours"},
        {.weights = Weights::doubly_stochastic,
         .code = Code::exact,
         .code_of_mean = Code::averaged,
         .may_be_stale = false,
         .reads = "aggregate local_steps outer_rate outer_momentum dense_below",
         .outer = true,
         .why_weights = kMeanDrifts,
         .why_code = "beside a full graph it averages whole vectors, and those do not converge under a lossy "
                     "codec; use codec 'dense', or graph.kind 'full', where outer gradients may be coded",
         .why_code_of_mean = "what it leaves out of outer gradients is lost for good; use 'qsgd', 'topk' or "
                             "'onebit_scaled'",
         .why_synchronous = kOuterDelay},
        make_diloco},
    Method{
        {"noloco",
         "local_steps steps, then momentum towards what a pair learned (NoLoCo); graph 'matching', or any"},
        {.weights = Weights::doubly_stochastic,
         .code = Code::exact,
         .may_be_stale = false,
         .gamma = Gamma::own,
         .reads = "aggregate gamma local_steps outer_rate outer_momentum",
         .outer = true,
         .why_weights = kMeanDrifts,
         .why_code = kWholeState,
         .why_synchronous = kOuterDelay},
        make_noloco},
    Method{
        {"sparse_loco",
         "local_steps steps, then a few entries of what was learned to all, the rest later (SparseLoCo)"},
        {.graph = Graph::one_mean,
         .code = Code::feedback,
         .may_vary = false,
         .may_be_stale = false,
         .reads = "aggregate local_steps outer_rate feedback_decay dense_below",
         .outer = true,
         .why_graph = "its messages hold nothing of the parameters themselves, so that peers with different "
                      "neighbours drift apart; use graph.kind 'full', or method 'choco', 'noloco' or "
                      "'diloco' for gossip",
         .why_code = "its residual grows without end under error feedback; use "
                     "'topk:density=0.02,values=two_bit'",
         .why_synchronous = kOuterDelay},
        make_sparse_loco},
    Method{
        {"epidemic", "dpsgd with whoever was drawn this round (epidemic learning); graph 'epidemic', or any"},
        {.code = Code::exact,
         .rules = Rules::parameters,
         .may_lose = true,
         .reads = "aggregate",
         .why_code = kWholeState},
        make_dpsgd},
    Method{
        {"choco",
         "compressed gossip of parameter differences (CHOCO-SGD); static symmetric graph, contractive codec"},
        {.weights = Weights::symmetric,
         .code = Code::contractive,
         .may_vary = false,
         .gamma = Gamma::differences,
         .reads = "aggregate gamma dense_below dense_rounds",
         .why_weights = "use graph.directed = false with weights 'metropolis', or method 'dpsgd'",
         .why_static =
             "keeps an estimate of every neighbour from all its messages, which a time-varying graph "
             "breaks: a peer that is a neighbour only in some rounds misses the others' deltas; use "
             "method 'dpsgd' or 'deep_squeeze', or a static graph such as 'exponential' with "
             "graph.directed = false",
         .why_code = "its estimates would run away from what they estimate; use 'qsgd:bits=4,norm=max', "
                     "'onebit_scaled' or 'topk'"},
        make_choco},
    Method{{"deep_squeeze",
            "compressed gossip with error feedback and no estimates (DeepSqueeze); the graph may vary"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::contractive,
            .may_be_stale = false,
            .gamma = Gamma::parameters,
            .reads = "aggregate gamma dense_below dense_rounds",
            .why_weights = kMeanDrifts,
            .why_code = "its residual grows without end under error feedback; use 'qsgd:bits=4,norm=max', "
                        "'onebit_scaled' or 'topk'",
            .why_synchronous = kLockstep},
           make_deep_squeeze},
    Method{
        {"gradient_tracking", "gossip of parameters and of a tracked mean gradient, for heterogeneous data"},
        {.weights = Weights::doubly_stochastic,
         .code = Code::exact,
         .may_be_stale = false,
         .reads = "aggregate",
         .why_weights = kMeanDrifts,
         .why_code = kWholeState,
         .why_synchronous = kLockstep},
        make_gradient_tracking},
    Method{
        {"exact_diffusion",
         "gossip with a correction by which heterogeneous data leave no bias (D2); symmetric static graph"},
        {.weights = Weights::symmetric,
         .code = Code::exact,
         .may_vary = false,
         .may_be_stale = false,
         .plain_sgd = true,
         .reads = "aggregate",
         .why_weights = "use graph.directed = false with weights 'metropolis', or method 'gradient_tracking'",
         .why_static =
             "corrects by the last round's mixing, which must be this round's too; use a static graph, or "
             "method 'gradient_tracking'",
         .why_code = kWholeState,
         .why_synchronous = kLockstep},
        make_exact_diffusion},
    Method{
        {"relay_sum",
         "sums of parameters relayed along a tree, every peer's once (RelaySum), for heterogeneous data"},
        {.graph = Graph::tree,
         .weights = Weights::symmetric,
         .code = Code::exact,
         .may_vary = false,
         .may_be_stale = false,
         .why_graph = "sums relayed around a cycle would count a peer twice; use graph.kind 'tree' or 'star'",
         .why_weights = "edges of a tree go both ways; use graph.directed = false",
         .why_static =
             "relays what it heard along the same edges a round later; use graph.kind 'tree' or 'star'",
         .why_code = kWholeState,
         .why_synchronous = kLockstep},
        make_relay_sum},
    Method{{"pairwise", "averages with one neighbour at a time, drawn each round; nobody waits (AD-PSGD)"},
           {.code = Code::exact,
            .may_wait = false,
            .why_code = kWholeState,
            .why_unbounded = "it waits for nobody, so that no bound can be kept; use staleness = "
                             "\"unbounded\", or method 'dpsgd'"},
           make_pairwise},
    Method{{"moniqua",
            "compressed gossip of exchange.modulo_bits bits with no memory (Moniqua); the graph may vary"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .may_be_stale = false,
            .gamma = Gamma::own,
            .reads = "gamma modulo_bits modulo_bound",
            .why_weights = kMeanDrifts,
            .why_code =
                "has a code of its own, exchange.modulo_bits of each parameter modulo "
                "exchange.modulo_bound; use codec 'dense', or method 'choco' or 'deep_squeeze' for others",
            .why_synchronous = kLockstep},
           make_moniqua},
    Method{{"push_sum",
            "sums of mass and weight, for directed and time-varying graphs and lossy networks (SGP)"},
           {.code = Code::exact, .may_lose = true, .why_code = kWholeState},
           make_push_sum},
    Method{
        {"ensemble",
         "models, not averaged, label each peer's batches for exchange.distill_steps steps (EC-DNN); peers' "
         "hidden sizes may differ"},
        {.code = Code::faithful,
         .may_be_stale = false,
         .keeps_apart = true,
         .heterogeneous = true,
         .classifier = true,
         .reads = "aggregate local_steps distill_steps distill_weight dense_below",
         .why_code =
             "neighbours use what they decode as a model, and a coarse code of all parameters predicts "
             "little; use 'dense', 'fp16', 'intq:bits=4' or 'qsgd:bits=8'",
         .why_synchronous =
             "an exchange's models belong to one round; use staleness = 0 and a larger exchange.local_steps"},
        make_ensemble},
};

constexpr auto kRows = [] {
  std::array<optim::NamedHelp, kMethods.size()> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kMethods[i].row;
  return rows;
}();

}  // namespace

std::span<const Method> methods() { return kMethods; }
std::span<const optim::NamedHelp> method_table() { return kRows; }

namespace {

bool names_key(const Method& method, std::string_view key) {
  const std::string listed = fmt::format(" {} ", method.needs.reads);
  return listed.find(fmt::format(" {} ", key)) != std::string::npos;
}

}  // namespace

bool reads(const Method& method, std::string_view key) {
  if (key.starts_with("exchange.")) key.remove_prefix(std::string_view("exchange.").size());
  return names_key(method, key) ||
         std::none_of(kMethods.begin(), kMethods.end(), [&](const Method& m) { return names_key(m, key); });
}

const Method& find_method(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& m : kMethods) {
    if (name == m.row.name) return m;
    names.emplace_back(m.row.name);
  }
  throw ConfigError(fmt::format("unknown exchange method '{}'; expected one of {}{}", name, join(names, ", "),
                                did_you_mean(std::string(name), names)));
}

std::unique_ptr<Exchange> make_exchange(ExchangeHost& host) {
  return find_method(host.plan().exchange.method).make(host);
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
                              "topk",
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
  const char* const staleness = !n.may_be_stale ? "0" : n.may_wait ? "0, bounded or unbounded" : "unbounded";
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
      *n.reads ? n.reads : "none of its own");
}

}  // namespace gossamer::node
