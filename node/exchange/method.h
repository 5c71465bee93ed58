#pragma once
// A Method describes an exchange method: what it is sound with and why, what it sends, what holds of its
// runs, and how it is made. Each stands at the end of the method's own file; the table in method.cpp has a
// row for each.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exchange.h"
#include "own_key.h"

namespace gossamer::node {

/// What a method is sound with. The texts are reasons, and what to use instead; they end sentences that name
/// the method and what was found.
struct Needs {
  enum class Graph { any, complete, ring_or_complete, tree, halving, one_mean } graph = Graph::any;
  enum class Weights { any, doubly_stochastic, symmetric } weights = Weights::any;
  enum class Code { any, exact, unbiased, contractive, feedback, topk, averaged, faithful } code = Code::any;
  std::optional<Code> code_of_mean{};  ///< in code's place where all peers have one mean (outer.h)
  /// Vectors to which an aggregation rule may be applied in place of the weighted sum.
  enum class Rules { none, gradients, parameters } rules = Rules::none;
  bool may_vary = true;  ///< the graph in time
  bool may_be_stale = true;
  bool may_wait = true;    ///< staleness may be bounded
  bool may_lose = false;   ///< messages, under exchange.delivery = "best_effort"
  bool plain_sgd = false;  ///< the optimiser keeps no state of its own
  /// What exchange.gamma goes by where it is left open (consensus_step.h); own: Method::own_gamma.
  enum class Gamma { none, own, differences, parameters } gamma = Gamma::none;
  bool codes_gradients = false;  ///< sums encoded gradients before the step
  bool sparse_feedback = false;  ///< its gradients may go sparse under error feedback (sparse_gradients.cpp)
  bool keeps_apart = false;      ///< nothing draws the peers' models together
  bool heterogeneous = false;    ///< peers' models may have hidden sizes of their own
  bool classifier = false;       ///< the model gives class probabilities, which the peers' models join
  /// Which vectors a round may go on without (exchange.backup): those that late ones supersede, or add to.
  enum class Partial { no, parameters, gradients } partial = Partial::no;
  /// Keys of [exchange] that make a difference to it, beside its own (Method::keys), of those that no method
  /// but such as name them reads; without "exchange.", blanks between them. Given to another method they are
  /// refused.
  const char* reads = "";
  bool outer = false;  ///< takes exchange.fragments and exchange.outer_delay
  const char *why_graph = "", *why_weights = "", *why_static = "", *why_code = "", *why_code_of_mean = "",
             *why_synchronous = "", *why_unbounded = "";
};

/// What a method sends in a round, and what its rounds count for (advise/patterns.h).
struct Pattern {
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
  const char* own_graph =
      "";  ///< graph.kind that only such methods are offered, and that they are offered alone
};

/// What holds of every run of a method, whatever the network does (check/checkers.h).
struct MethodInvariants {
  /// Mixes when what the round expects within the staleness has come: each parcel (class Gossip), or models.
  enum class WaitsFor { nothing, parcels, models } waits_for = WaitsFor::nothing;
  std::uint32_t vectors =
      1;                   ///< that a neighbour sends of each parcel in a round; where it waits for parcels
  bool all_alike = false;  ///< peers' parameters stay identical to the bit
  /// Unless synchronous: a message may be mixed more than once, or be overtaken by a newer one.
  bool newest_only = false;
  bool overtakes = false;   ///< unless synchronous: the newest message stands for all that came before it
  bool leaves_out = false;  ///< unless synchronous: sends nothing over a link that is full
  /// What else is checked, by a checker of its own.
  enum class Own {
    none,
    mass,
    pairs,
    residues,
    tracking,
    outer_steps,
    outer_pulls,
    outer_sparse
  } own = Own::none;
};

/// Of outer steps, where the job leaves them open; those of Douillard et al. (DiLoCo, 2023).
struct OuterDefaults {
  double rate = 0.7, momentum = 0.9;
};

/// What a step is taken by where the program takes it, by an optimiser of its own (training_loop.h).
enum class OwnSteps {
  gradient,  ///< the peer's own gradient: what it makes of the parameters is handed over in the gradient's
             ///< place
  mean,      ///< the mean of all peers' gradients, when all of it stands
  refused,   ///< what the method makes of gradients, which the program does not see
};

struct Method {
  optim::NamedHelp row;
  Needs needs;
  std::unique_ptr<Exchange> (*make)(ExchangeHost&);
  /// What it keeps beside x and g; null: nothing.
  Buffers (*buffers)(const Plan&) = nullptr;
  /// After its last round a peer goes on taking messages while others still train.
  bool serves_after_end = false;
  OwnSteps own_steps = OwnSteps::gradient;
  /// Without exchange.overlap x is stepped as soon as the gradient stands, whatever the neighbours send of
  /// the round.
  bool steps_alone = true;
  std::optional<Pattern> pattern{};  ///< empty: what its rounds cost is not known
  MethodInvariants invariants{};
  OuterDefaults (*outer_defaults)(const compress::Traits&) = nullptr;  ///< null: the papers'
  /// Where Needs::gamma is own; outer_momentum: resolved.
  double (*own_gamma)(const ExchangeSettings&, double outer_momentum) = nullptr;
  /// Each of the schedule's rounds comes after local_steps − 1 rounds in which nobody sends.
  bool idle_rounds = false;
  std::uint64_t usual_local_steps = 16;  ///< where the job leaves them open
  /// Why these settings do not go together, after the file's name; empty: they do.
  std::string (*refusal)(const ExchangeSettings&) = nullptr;
  std::span<const OwnKey> keys{};  ///< its own; it reads them, and no other method does
  std::size_t swarm_rounds = 14;   ///< of a swarm's small runs, at most: time for all that it does
};

std::span<const Method* const> methods();
/// Whether a key of [exchange] makes a difference to the method, as far as Needs::reads tells; also for what
/// is no method's own.
bool reads(const Method& method, std::string_view key);
/// Whether there are several all-reduce algorithms for what the method sends: a dense reduce.
bool has_algorithms(const Method& method, const Plan& plan);
/// Whether gtopk's sums go up its tree and down again at once.
bool goes_by_butterfly(const Plan& plan);
/// All peers must begin with the same parameters: what they exchange does not draw them together.
bool begins_alike(const Method& method);
/// Rounds from one exchange to the next.
std::uint64_t local_steps(const ExchangeSettings& e);
/// A step of a round that is not over can be kept: as of Method::steps_alone.
bool steps_alone(const ExchangeSettings& e);
/// What a peer has sent, and has not been taken, is owed beyond the view in which it was sent.
bool holds_mass(const Method& method);
/// Models of peers that went on apart, as their network had fallen apart, are brought together when they
/// meet: not where all must be alike, where nothing else draws them together, or where a mass that all hold
/// together does that.
bool merges_sides(const Method& method);
/// Throws ConfigError for an unknown name.
const Method& find_method(std::string_view name);

/// The table of `gossamer help method NAME`.
std::string method_text(const Method& method);

// The rows of the table.
extern const Method kNoneMethod, kAllreduceMethod, kBroadcastMethod, kTopkAllgatherMethod, kGtopkMethod,
    kDpsgdMethod, kLocalSgdMethod, kDilocoMethod, kNolocoMethod, kSparseLocoMethod, kEpidemicMethod,
    kChocoMethod, kDeepSqueezeMethod, kGradientTrackingMethod, kExactDiffusionMethod, kRelaySumMethod,
    kPairwiseMethod, kMoniquaMethod, kPushSumMethod, kEnsembleMethod;

}  // namespace gossamer::node
