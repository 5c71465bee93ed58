#include "methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text.h"

namespace gossamer::node {
namespace {

using Graph = Needs::Graph;
using Weights = Needs::Weights;
using Code = Needs::Code;

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

constexpr std::array kMethods{
    Method{{"none", "no messages: every peer trains alone (the control in every comparison)"}, {}, make_none},
    Method{{"allreduce",
            "average gradients over all peers before the step; graph full (any codec) or ring (dense)"},
           {.graph = Graph::ring_or_complete,
            .may_vary = false,
            .may_be_stale = false,
            .why_synchronous = kOneSum},
           make_allreduce},
    Method{{"broadcast", "every peer's encoded gradient to every other before the step (QSGD, algorithm 1)"},
           {.graph = Graph::complete,
            .code = Code::unbiased,
            .may_vary = false,
            .may_be_stale = false,
            .why_graph = kAllLinked,
            .why_code = "what the codec leaves out of a gradient is lost for good; use 'qsgd', or method "
                        "'topk_allgather' or 'allreduce', which feed errors back",
            .why_synchronous = kOneSum},
           make_broadcast},
    Method{
        {"topk_allgather", "the same with error feedback, for sparse codecs: all k values to all"},
        {.graph = Graph::complete,
         .code = Code::feedback,
         .may_vary = false,
         .may_be_stale = false,
         .why_graph = kAllLinked,
         .why_code =
             "its residual grows without end under error feedback; use 'topk' or 'qsgd:bits=4,norm=max', or "
             "method 'broadcast'",
         .why_synchronous = kOneSum},
        make_topk_allgather},
    Method{{"dpsgd",
            "step, then average dense parameters with neighbours (D-PSGD); any graph with doubly stochastic "
            "weights"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .why_weights = kMeanDrifts,
            .why_code = kWholeState},
           make_dpsgd},
    Method{{"local_sgd",
            "exchange.local_steps steps alone, then one round of dpsgd; on a full graph the mean of all"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .may_be_stale = false,
            .why_weights = kMeanDrifts,
            .why_code = kWholeState,
            .why_synchronous = kLockstep},
           make_dpsgd},
    Method{
        {"epidemic", "dpsgd with whoever was drawn this round (epidemic learning); graph 'epidemic', or any"},
        {.code = Code::exact, .why_code = kWholeState},
        make_dpsgd},
    Method{
        {"choco",
         "compressed gossip of parameter differences (CHOCO-SGD); static symmetric graph, contractive codec"},
        {.weights = Weights::symmetric,
         .code = Code::contractive,
         .may_vary = false,
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
            .why_weights = kMeanDrifts,
            .why_code = "its residual grows without end under error feedback; use 'qsgd:bits=4,norm=max', "
                        "'onebit_scaled' or 'topk'",
            .why_synchronous = kLockstep},
           make_deep_squeeze},
    Method{{"gradient_tracking", "gossip of parameters and of a tracked mean gradient, for unlike data"},
           {.weights = Weights::doubly_stochastic,
            .code = Code::exact,
            .may_be_stale = false,
            .why_weights = kMeanDrifts,
            .why_code = kWholeState,
            .why_synchronous = kLockstep},
           make_gradient_tracking},
    Method{
        {"exact_diffusion",
         "gossip with a correction by which unlike data leave no bias (D2); symmetric static graph"},
        {.weights = Weights::symmetric,
         .code = Code::exact,
         .may_vary = false,
         .may_be_stale = false,
         .plain_sgd = true,
         .why_weights = "use graph.directed = false with weights 'metropolis', or method 'gradient_tracking'",
         .why_static =
             "corrects by the last round's mixing, which must be this round's too; use a static graph, or "
             "method 'gradient_tracking'",
         .why_code = kWholeState,
         .why_synchronous = kLockstep},
        make_exact_diffusion},
    Method{
        {"relay_sum",
         "sums of parameters relayed along a tree, every peer's once (RelaySum), for unlike data"},
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
};

constexpr auto kRows = [] {
  std::array<optim::NamedHelp, kMethods.size()> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kMethods[i].row;
  return rows;
}();

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

/// Connected, as every schedule is, with P − 1 edges.
bool is_tree(const topology::Schedule& s) {
  std::size_t ends = 0;
  for (PeerId i = 0; i < s.peers(); ++i) ends += s.at(0).out(i).size();
  return !s.time_varying() && s.at(0).symmetric() && ends == 2 * (s.peers() - 1);
}

class Check {
 public:
  Check(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule)
      : needs_(method.needs), name_(method.row.name), job_(job), plan_(plan), schedule_(schedule) {}

  void all() const {
    if (!needs_.may_be_stale && job_.exchange.staleness != std::optional<std::uint64_t>(0))
      refuse("needs exchange.staleness = 0: {}", needs_.why_synchronous);
    if (!needs_.may_wait && job_.exchange.staleness)
      refuse("needs exchange.staleness = \"unbounded\": {}", needs_.why_unbounded);
    graph();
    if (!needs_.may_vary && schedule_.time_varying())
      refuse("needs a graph that does not vary, found the time-varying graph '{}': it {}", job_.graph.kind,
             needs_.why_static);
    weights();
    code();
    if (needs_.plain_sgd && job_.optimizer.kind != "sgd")
      refuse(
          "needs optimizer.kind 'sgd', found '{}': its correction holds for steps that depend on the present "
          "gradient alone; use 'sgd', or method 'gradient_tracking'",
          job_.optimizer.kind);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> what, Args&&... args) const {
    throw ConfigError(
        fmt::format("{}: method '{}' {}", job_.path, name_, fmt::format(what, std::forward<Args>(args)...)));
  }

  /// Exact codes travel along a ring, others need every edge.
  void ring_or_complete() const {
    if (plan_.codec.exact && !has_ring(schedule_))
      refuse(
          "sends along the ring of peers in file order, and graph '{}' lacks one of its edges; use "
          "graph.kind "
          "'ring' or 'full', or method 'dpsgd'",
          job_.graph.kind);
    if (!plan_.codec.exact && !complete(schedule_))
      refuse(
          "with codec '{}' needs an edge between every two peers (slices go straight to their owners), and "
          "graph "
          "'{}' has not; use graph.kind 'full', codec 'dense' on a ring, or method 'choco'",
          job_.exchange.codec, job_.graph.kind);
  }

  void graph() const {
    if (needs_.graph == Graph::ring_or_complete) ring_or_complete();
    if (needs_.graph == Graph::complete && !complete(schedule_))
      refuse("needs an edge between every two peers, and graph '{}' has not: {}", job_.graph.kind,
             needs_.why_graph);
    if (needs_.graph == Graph::tree && !is_tree(schedule_))
      refuse("needs a tree, and graph '{}' is none: {}", job_.graph.kind, needs_.why_graph);
  }

  void weights() const {
    const bool by_samples = job_.exchange.aggregate == "samples";  // checked by itself
    if (needs_.weights == Weights::doubly_stochastic && !by_samples &&
        !every(schedule_, &topology::MixingMatrix::doubly_stochastic))
      refuse("needs weights whose columns sum to 1 too, and graph '{}' with weights '{}' has not: {}",
             job_.graph.kind, job_.graph.weights, needs_.why_weights);
    if (needs_.weights == Weights::symmetric && !every(schedule_, &topology::MixingMatrix::symmetric))
      refuse("needs a symmetric mixing matrix (W_ij = W_ji), and graph '{}' with weights '{}' has not; {}",
             job_.graph.kind, job_.graph.weights, needs_.why_weights);
  }

  void code() const {
    const compress::Traits& c = plan_.codec;
    const std::string& codec = job_.exchange.codec;
    if (needs_.code == Code::exact && !c.exact) refuse("{} (found '{}')", needs_.why_code, codec);
    if (needs_.code == Code::unbiased && !c.unbiased && !c.exact)
      refuse("needs an unbiased codec, and '{}' is not: {}", codec, needs_.why_code);
    if (needs_.code == Code::contractive && !c.contractive)
      refuse("needs a contractive codec (its error below the size of what it encodes), and '{}' is not: {}",
             codec, needs_.why_code);
    if (needs_.code == Code::feedback && !c.feedback())
      refuse("needs a codec that error feedback can bear, and '{}' is not: {}", codec, needs_.why_code);
  }

  const Needs& needs_;
  std::string_view name_;
  const Job& job_;
  const Plan& plan_;
  const topology::Schedule& schedule_;
};

}  // namespace

std::span<const Method> methods() { return kMethods; }
std::span<const optim::NamedHelp> method_table() { return kRows; }

const Method& find_method(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& m : kMethods) {
    if (name == m.row.name) return m;
    names.emplace_back(m.row.name);
  }
  throw ConfigError(fmt::format("unknown exchange method '{}'; expected one of {}{}", name, join(names, ", "),
                                did_you_mean(std::string(name), names)));
}

void check_method(const Method& method, const Job& job, const Plan& plan,
                  const topology::Schedule& schedule) {
  Check(method, job, plan, schedule).all();
}

std::string method_text(const Method& method) {
  constexpr std::array kGraphs{"any", "an edge between every two peers",
                               "full; with codec 'dense' any with the ring of peers in file order", "a tree"};
  constexpr std::array kWeights{"any: rows sum to 1", "rows and columns sum to 1", "symmetric"};
  constexpr std::array kCodes{
      "any", "exact: dense", "unbiased: qsgd, randk:scale=1, intq:rounding=stochastic ...",
      "contractive: onebit_scaled, topk, qsgd:bits=4,norm=max ...", "contractive, or threshold"};
  const Needs& n = method.needs;
  const auto at = [](const auto& texts, auto choice) { return texts[static_cast<std::size_t>(choice)]; };
  return fmt::format(
      "{}: {}\n\n  graph      {}\n  weights    {}\n  schedule   {}\n  codec      {}\n  staleness  {}\n  "
      "optimizer  {}\n",
      method.row.name, method.row.help, at(kGraphs, n.graph), at(kWeights, n.weights),
      n.may_vary ? "static or time-varying" : "static", at(kCodes, n.code),
      !n.may_be_stale ? "0"
      : n.may_wait    ? "0, bounded or unbounded"
                      : "unbounded",
      n.plain_sgd ? "sgd" : "any");
}

}  // namespace gossamer::node
