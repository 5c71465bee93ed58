#include "soundness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "aggregation.h"
#include "coding_error.h"
#include "gossamer/topology/report.h"
#include "outer.h"
#include "unread.h"

namespace gossamer::node {
namespace {

using Graph = Needs::Graph;
using Weights = Needs::Weights;
using Code = Needs::Code;
using Partial = Needs::Partial;

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

/// Edges both ways between every peer and the one without its lowest set bit: a tree of ⌈log₂P⌉ levels.
bool has_halving_tree(const topology::Schedule& s) {
  for (PeerId i = 1; i < s.peers(); ++i)
    if (!sends(s.at(0), i, i & (i - 1)) || !sends(s.at(0), i & (i - 1), i)) return false;
  return !s.time_varying();
}

/// Connected, as every schedule is, with P − 1 edges.
bool is_tree(const topology::Schedule& s) {
  std::size_t ends = 0;
  for (PeerId i = 0; i < s.peers(); ++i) ends += s.at(0).out(i).size();
  return !s.time_varying() && s.at(0).symmetric() && ends == 2 * (s.peers() - 1);
}

/// What codes a model so well that it predicts nearly as the model does. Of an mlp on Fashion-MNIST, an error
/// of 0.01 (8 bits) cost no accuracy, 0.12 (intq:bits=4) 0.3 points, 0.2 (qsgd:bits=4) 1, 0.6 (one bit) 13.
constexpr double kFaithfulError = 0.15;

/// A growth that may be rounding, where a schedule does not join all.
constexpr double kNoGrowth = 1e-3;

class Check {
 public:
  Check(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule)
      : needs_(method.needs),
        name_(method.row.name),
        pulls_(method.pattern && method.pattern->mixing == Pattern::Mixing::pull),
        job_(job),
        plan_(plan),
        schedule_(schedule) {}

  void all() const {
    keys();
    const bool bound =
        needs_.partial != Partial::no && closes_early(job_.exchange);  // staleness is one there
    if (!needs_.may_be_stale && !bound && job_.exchange.staleness != std::optional<std::uint64_t>(0))
      refuse("needs exchange.staleness = 0: {}", needs_.why_synchronous);
    if (!needs_.may_wait && job_.exchange.staleness)
      refuse("needs exchange.staleness = \"unbounded\": {}", needs_.why_unbounded);
    delivery();
    graph();
    if (!needs_.may_vary && schedule_.time_varying())
      refuse("needs a graph that does not vary, found the time-varying graph '{}': it {}", job_.graph.kind,
             needs_.why_static);
    weights();
    code();
    gradients();
    outer();
    if (job_.exchange.backup > 0) early("exchange.backup");
    if (job_.exchange.straggler != "wait") straggler();
    if (needs_.plain_sgd && optim::optimizer_traits(job_.optimizer.kind).keeps_state)
      refuse(
          "needs optimizer.kind 'sgd', found '{}': its correction holds for steps that depend on the present "
          "gradient alone; use 'sgd', or method 'gradient_tracking'",
          job_.optimizer.kind);
    shapes();
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> what, Args&&... args) const {
    throw ConfigError(
        fmt::format("{}: method '{}' {}", job_.path, name_, fmt::format(what, std::forward<Args>(args)...)));
  }

  /// What makes no difference here was meant for another method.
  void keys() const {
    for (const config::UnreadKey& key : config::unread_keys(job_.exchange))
      throw ConfigError(fmt::format("{}: {}", job_.where(key.name), config::refusal(key)));
    if (job_.exchange.algorithm != "auto" && !plan_.codec.exact)
      throw ConfigError(fmt::format(
          "{}: method '{}' takes exchange.algorithm = '{}' with dense messages only, and slices under codec "
          "'{}' go straight to their owners; use codec 'dense', or algorithm = 'auto'",
          job_.where("exchange.algorithm"), name_, job_.exchange.algorithm, job_.exchange.codec));
  }

  /// Exact codes travel along a ring or by halving and doubling, others need every edge.
  void ring_or_complete() const {
    const bool none =
        std::isinf(plan_.allreduce.ring.latency_s) && std::isinf(plan_.allreduce.halving.latency_s);
    if (plan_.codec.exact && none && job_.exchange.algorithm == "halving_doubling")
      refuse(
          "by halving and doubling needs an edge between all peers whose ranks differ in one bit, and graph "
          "'{}' lacks one; use graph.kind 'full', or 'hypercube' for a power of two of peers, or "
          "exchange.algorithm = 'ring'",
          job_.graph.kind);
    if (plan_.codec.exact && none)
      refuse(
          "sends along the ring of peers in file order, and graph '{}' lacks one of its edges; use "
          "graph.kind 'ring', 'full' or 'hypercube', or method 'dpsgd'",
          job_.graph.kind);
    if (!plan_.codec.exact && !complete(schedule_))
      refuse(
          "with codec '{}' needs an edge between every two peers (slices go straight to their owners), and "
          "graph "
          "'{}' has not; use graph.kind 'full', codec 'dense' on a ring, or method 'choco'",
          job_.exchange.codec, job_.graph.kind);
  }

  void delivery() const {
    if (job_.exchange.delivery != "best_effort") return;
    if (!needs_.may_lose)
      refuse(
          "would never recover what a lost message held: the peers' mean drifts, or they wait for ever; use "
          "exchange.delivery = 'reliable', or method 'push_sum', whose next message repairs it");
    if (job_.exchange.staleness)
      refuse(
          "with exchange.delivery = 'best_effort' needs exchange.staleness = \"unbounded\": what is lost "
          "cannot be waited for");
  }

  void graph() const {
    if (needs_.graph == Graph::ring_or_complete) ring_or_complete();
    if (needs_.graph == Graph::complete && !complete(schedule_))
      refuse("needs an edge between every two peers, and graph '{}' has not: {}", job_.graph.kind,
             needs_.why_graph);
    if (needs_.graph == Graph::one_mean && !one_mean(plan_.schedule))
      refuse("needs an edge between every two peers and the same weights for all, and graph '{}' has not: {}",
             job_.graph.kind, needs_.why_graph);
    if (needs_.graph == Graph::halving && !has_halving_tree(schedule_))
      refuse("needs a tree of pairs of peers, and graph '{}' lacks one of its edges: {}", job_.graph.kind,
             needs_.why_graph);
    if (needs_.graph == Graph::tree && !is_tree(schedule_))
      refuse("needs a tree, and graph '{}' is none: {}", job_.graph.kind, needs_.why_graph);
  }

  void weights() const {
    const bool weighted_peers = weighs_peers(job_.exchange.aggregate);  // checked by itself
    if (needs_.weights == Weights::doubly_stochastic && !weighted_peers &&
        !every(schedule_, &topology::MixingMatrix::doubly_stochastic))
      refuse("needs weights whose columns sum to 1 too, and graph '{}' with weights '{}' has not: {}",
             job_.graph.kind, job_.graph.weights, needs_.why_weights);
    if (needs_.weights == Weights::symmetric && !every(schedule_, &topology::MixingMatrix::symmetric))
      refuse("needs a symmetric mixing matrix (W_ij = W_ji), and graph '{}' with weights '{}' has not; {}",
             job_.graph.kind, job_.graph.weights, needs_.why_weights);
  }

  void code() const {
    if (needs_.code_of_mean && one_mean(plan_.schedule))
      code(*needs_.code_of_mean, needs_.why_code_of_mean);
    else
      code(needs_.code, needs_.why_code);
  }

  void code(Code needed, const char* why) const {
    const compress::Traits& c = plan_.codec;
    const std::string& codec = job_.exchange.codec;
    if (needed == Code::exact && !c.exact) refuse("{} (found '{}')", why, codec);
    if (needed == Code::unbiased && !c.unbiased && !c.exact && !is_vote(job_.exchange.aggregate))
      refuse("needs an unbiased codec, and '{}' is not: {}", codec, why);
    if (needed == Code::contractive && !c.contractive)
      refuse("needs a contractive codec (its error below the size of what it encodes), and '{}' is not: {}",
             codec, why);
    if (needed == Code::topk && !c.largest) refuse("needs codec 'topk', found '{}': {}", codec, why);
    if (needed == Code::feedback && !c.feedback())
      refuse("needs a codec that converges under error feedback, and '{}' is not: {}", codec, why);
    if (needed == Code::averaged && !c.exact && !c.unbiased && !c.feedback() &&
        !is_vote(job_.exchange.aggregate))
      refuse("needs a codec that is unbiased or converges under error feedback, and '{}' is neither: {}",
             codec, why);
    if (needed != Code::faithful) return;
    if (const double error = coding_error(codec); error > kFaithfulError)
      refuse("needs a codec whose error is at most {} of what it codes, and that of '{}' is {:.2f}: {}",
             kFaithfulError, codec, error, why);
  }

  /// What full reduces of gradients make of codecs that need error feedback.
  void gradients() const {
    const ExchangeSettings& e = job_.exchange;
    const bool biased = !plan_.codec.exact && !plan_.codec.unbiased;
    if (needs_.rules == Needs::Rules::gradients && biased && plan_.rule != RuleScope::none &&
        !is_vote(e.aggregate))
      refuse(
          "with exchange.aggregate = '{}' needs an unbiased codec, found '{}': under error feedback what a "
          "peer sends is not its gradient of the round; use 'qsgd', or aggregate = 'weighted'",
          e.aggregate, e.codec);
    if (kSendMomentum.of(e) > 0 && biased && !is_vote(e.aggregate))
      refuse(
          "with exchange.send_momentum needs an unbiased codec, found '{}': its residuals would lag behind "
          "the average; use 'qsgd', or optimizer.kind = 'momentum' in send_momentum's place",
          e.codec);
    if (!codes_velocity(job_, plan_.codec)) return;
    const optim::OptimizerSpec& o = job_.optimizer;
    if (!optim::velocity_decay(o))
      refuse(
          "with codec '{}' needs an optimizer whose momentum is of gradients alone, found '{}': it is the "
          "velocity that is coded; use 'momentum', or method 'choco'",
          e.codec, o.kind);
    if (plan_.velocity > 0 && closes_early(e))
      refuse(
          "with codec '{}' and optimizer '{}' takes no exchange.backup and no run.straggler = \"without\": "
          "what "
          "is coded is the velocity that all peers have decoded alike, and late messages make them differ; "
          "use "
          "backup = 0 and straggler = \"wait\", or optimizer.kind 'sgd'",
          e.codec, o.kind);
    if (optim::optimizer_traits(o.kind).adapts_by_second_moment && e.dense_rounds == 0)
      refuse(
          "with codec '{}' and optimizer '{}' needs exchange.dense_rounds > 0, found 0: coarse codes say "
          "nothing of a gradient's square, which must be learned from dense rounds before them (1-bit Adam); "
          "set exchange.dense_rounds to about 5 % of the rounds, or use optimizer.kind 'momentum'",
          e.codec, o.kind);
  }

  void outer() const {
    const ExchangeSettings& e = job_.exchange;
    if (!needs_.outer && (e.fragments != 1 || e.outer_delay != 0))
      refuse(
          "exchanges everything at once and at the round's end, and takes neither exchange.fragments nor "
          "exchange.outer_delay; leave them out, or use method 'diloco'");
    if (needs_.outer && e.fragments > local_steps(e))
      refuse(
          "needs a round for each fragment: exchange.fragments is {} and exchange.local_steps {}; use at "
          "most as many fragments as steps",
          e.fragments, local_steps(e));
    if (needs_.outer && e.outer_delay >= local_steps(e))
      refuse(
          "uses the result of an exchange before the next begins: exchange.outer_delay is {} and "
          "exchange.local_steps {}; use a smaller delay",
          e.outer_delay, local_steps(e));
    if (pulls_) pull();
  }

  /// Also of graphs that vary and are made anew where peers go: few of an odd number are the hardest.
  void pull() const {
    constexpr std::size_t kHardest = 3;
    check_pull(schedule_);
    const std::size_t all = schedule_.peers(), least = std::max<std::size_t>(2, job_.least_peers());
    if (!schedule_.time_varying()) return;
    for (const std::size_t left : {all - 1, kHardest})
      if (left >= least && left < all)
        if (const auto fewer = remade_for(left)) check_pull(*fewer);
  }

  /// Nothing where the graph is not one of that many.
  std::optional<topology::Schedule> remade_for(std::size_t peers) const try {
    topology::GraphSpec graph = job_.graph;
    graph.peers = peers;
    return topology::make_schedule(graph);
  } catch (const topology::GraphError&) {
    return std::nullopt;
  }

  void check_pull(const topology::Schedule& schedule) const {
    const double growth = topology::pull_growth(schedule, {plan_.gamma, plan_.outer_momentum});
    if (growth > 1 + kNoGrowth)
      refuse(
          "with exchange.outer_momentum = {:g} and gamma = {:g} drives peers apart over graph '{}' of {}: "
          "what they differ by grows by {:.1f} % each time; use a smaller outer_momentum, as its default "
          "0.5, or a graph that does not vary",
          plan_.outer_momentum, plan_.gamma, job_.graph.kind, schedule.peers(), 100 * (growth - 1));
  }

  /// Rounds that close before all their messages have come; why: the key that has them do so.
  void early(std::string_view why) const {
    if (needs_.partial == Partial::no)
      refuse(
          "takes no {}: none of its messages may be missing or late; use 'dpsgd' (whose messages supersede "
          "each other), 'broadcast' or 'topk_allgather' (whose gradients may be added later)",
          why);
    if (plan_.rule != RuleScope::none)
      refuse(
          "with {} needs a weighted sum, found exchange.aggregate '{}': what a rule tolerates is counted in "
          "the vectors that it sees; use 'weighted'",
          why, job_.exchange.aggregate);
    if (schedule_.time_varying())
      refuse(
          "with {} needs a graph that does not vary, found '{}': who left out a round would be waited for in "
          "vain",
          why, job_.graph.kind);
    for (PeerId i = 0; i < schedule_.peers(); ++i)
      if (const std::size_t n = schedule_.at(0).in(i).size(); n > 0 && n <= job_.exchange.backup)
        refuse(
            "with exchange.backup = {} would wait for nobody at peer '{}', which hears {}; use a smaller "
            "backup, or exchange.staleness = \"unbounded\" where nobody is to be waited for",
            job_.exchange.backup, job_.peers[i].name, n);
    const std::string& kind = job_.optimizer.kind;
    if (needs_.partial == Partial::gradients && !optim::optimizer_traits(kind).adds_up)
      refuse(
          "with {} needs optimizer.kind 'sgd', 'momentum' or 'nesterov', found '{}': peers take in the same "
          "gradients in different rounds, and its steps do not add up to the same",
          why, kind);
  }

  void straggler() const {
    const ExchangeSettings& e = job_.exchange;
    if (!e.staleness)
      refuse(
          "waits for nobody with exchange.staleness = \"unbounded\", and takes no run.straggler = \"{}\"; "
          "use "
          "\"wait\"",
          e.straggler);
    if (e.straggler == "without") {
      early("run.straggler = \"without\"");
      if (e.staleness == 0u)
        refuse(
            "with run.straggler = \"without\" needs a bound, or what waits for a slow link would grow "
            "without "
            "end: set exchange.staleness to the rounds that a neighbour may be behind, for example 32");
      return;
    }
    const Method& method = find_method(name_);
    if (!reads(method, "local_steps") || method.usual_local_steps == 1 || needs_.keeps_apart)
      refuse(
          "takes no local steps of which a slow peer could take fewer (run.straggler = \"fewer\"); use "
          "'local_sgd', 'diloco', 'noloco' or 'sparse_loco', or straggler = \"wait\"");
    if (e.fragments != 1 || e.outer_delay != 0)
      refuse(
          "with run.straggler = \"fewer\" needs one exchange at a time, found exchange.fragments = {} and "
          "exchange.outer_delay = {}: what local steps take could not be told from what is waited for; leave "
          "them out",
          e.fragments, e.outer_delay);
  }

  void shapes() const {
    if (needs_.classifier &&
        (job_.learns_by_key() || job_.is_task() || !optim::model_traits(job_.model.kind).classifier))
      refuse("needs a model that predicts classes, found model.kind '{}'; use 'mlp' or 'softmax'",
             job_.model.kind);
    if (needs_.heterogeneous || !job_.heterogeneous()) return;
    const auto other = std::find_if(job_.peers.begin(), job_.peers.end(), [&](const PeerEntry& p) {
      return job_.hidden_of(p) != job_.hidden_of(job_.peers.front());
    });
    refuse(
        "needs models of one shape, and peers '{}' and '{}' have hidden = [{}] and [{}]: it sums parameters "
        "or "
        "gradients entry by entry; use method 'ensemble' or 'none', or no peer.hidden",
        job_.peers.front().name, other->name, fmt::join(job_.hidden_of(job_.peers.front()), ", "),
        fmt::join(job_.hidden_of(*other), ", "));
  }

  const Needs& needs_;
  std::string_view name_;
  bool pulls_;
  const Job& job_;
  const Plan& plan_;
  const topology::Schedule& schedule_;
};

}  // namespace

void drop_unread(ExchangeSettings& exchange) {
  Job job;
  job.exchange = std::move(exchange);
  config::drop_unread(job, config::Chosen::kMethod);
  exchange = std::move(job.exchange);
  if (!compress::make_codec(exchange.codec)->traits().exact)
    exchange.algorithm = ExchangeSettings{}.algorithm;
}

void check_method(const Method& method, const Job& job, const Plan& plan,
                  const topology::Schedule& schedule) {
  Check(method, job, plan, schedule).all();
  check_direction(method, job, plan);
  check_rule(method, job, plan, schedule);
}

}  // namespace gossamer::node
