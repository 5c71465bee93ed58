#pragma once
// What a round costs: peers compute, messages travel over links of unequal bandwidth and latency, and peers
// wait for them. A model, not a simulation: no losses, no acknowledgements, no time for coding.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "gossamer/topology/report.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

/// The links between P peers, one for each ordered pair; what stands on the diagonal means nothing.
class LinkTable {
 public:
  struct Link {
    double bandwidth;  ///< bit/s, above 0
    double latency;    ///< seconds
    /// From the first bit sent to the last bit there, where nothing else travels.
    double seconds(double bytes) const { return latency + 8 * bytes / bandwidth; }
  };
  LinkTable(std::size_t peers, Link everywhere);

  std::size_t peers() const { return uplinks_.size(); }
  Link& at(PeerId from, PeerId to) { return links_[from * peers() + to]; }
  const Link& at(PeerId from, PeerId to) const { return links_[from * peers() + to]; }
  /// bit/s that all messages of a peer share on their way out; infinite where its links do not meet.
  double& uplink(PeerId peer) { return uplinks_[peer]; }
  double uplink(PeerId peer) const { return uplinks_[peer]; }
  /// The slower direction's seconds for a message.
  double seconds(PeerId a, PeerId b, double bytes) const;
  /// The table in which peer i is this table's order[i]; order is a permutation.
  LinkTable placed(std::span<const PeerId> order) const;

 private:
  std::vector<Link> links_;
  std::vector<double> uplinks_;
};

/// One message of a round.
struct Transfer {
  PeerId from, to;
  double ready;  ///< share of the sender's step after which it may leave, 0 … 1
  double bytes;
  std::vector<std::uint32_t> after;  ///< earlier transfers of the list that must have come to `from` before
};
/// Of each round of a period; a round ends at a peer when its step is done and all that is for it has come.
using Traffic = std::vector<std::vector<Transfer>>;

/// What is sent of a model: parts that become ready one after the other within a step.
struct Part {
  double ready;  ///< share of the step
  double bytes;  ///< of the whole part, encoded
};

/// Bytes of a message on the wire: it is cut into chunks, and each has a header.
struct Framing {
  double header = 0, chunk = std::numeric_limits<double>::infinity();
  double on_wire(double payload) const;
};

/// Every part to every out-neighbour of the round, `vectors` of its size.
Traffic gossip_traffic(const Schedule& schedule, std::span<const Part> parts, const Framing& framing,
                       double vectors = 1);
/// Ring all-reduce in the order of the peers (Patarasu & Yuan 2009): each part in P slices, 2(P − 1) steps.
Traffic ring_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing);
/// Recursive halving, then doubling (Rabenseifner 2004), of the largest power of two of peers; the peers in
/// excess hand their vector to a neighbour before and get the sum after.
Traffic halving_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing);
/// Each part in P slices: every peer's slice to its owner, then the owner's sum to all.
Traffic slice_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing);

/// Each part up a binomial tree to peer 0 and down again (gTop-k, Shi et al. 2019): the parent of i is i
/// without its lowest set bit.
Traffic tree_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing);
/// Each part whole between peers i and i ^ 2^r, in step r of log₂P; peers: a power of two.
Traffic butterfly_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing);

struct RoundCost {
  double seconds = 0;  ///< a round, in the long run
  double step = 0;     ///< of it the slowest peer's own step
  /// The message that ended a round last; from == to where computing did.
  PeerId from = 0, to = 0;
};

/// Seconds per round in the long run. A peer begins round t + 1 when its step of round t is done and all that
/// was sent to it in round t − staleness has come; a link, and a peer's uplink, carry one message at a time.
/// step: seconds of each peer's computing. period: rounds of the traffic, which repeats.
RoundCost round_cost(const Traffic& traffic, std::span<const double> step, const LinkTable& links,
                     std::size_t staleness = 0);

/// I + γ_t (W_t − I) for every W_t, one γ in (0, 1] for each round of the period: what gossip of estimates
/// with consensus step γ does where the estimates are exact (CHOCO, DeepSqueeze).
Schedule damped(const Schedule& schedule, std::span<const double> gammas);
Schedule damped(const Schedule& schedule, double gamma);

/// How much longer than full averaging gossip has to train: D = min over τ of τ / (1 − e_τ²), e_τ the worst
/// start's error after τ rounds; 1 for exact averaging each round, 1 / (1 − λ₂²) for a symmetric static
/// graph. (τ, p = 1 − e_τ²) is assumption 4 of Koloskova et al. 2020, "A unified theory of decentralized
/// SGD", where τ/p is what the rate depends on. Infinite where nothing is ever averaged.
double consensus_delay(const Schedule& schedule, const Pull& pull = {});

/// Pairs that meet at random and take their mean: the share of the mean square of disagreement that a round
/// leaves, (1 − λ₂(L) / 2n)ⁿ for n pairings a round and L the Laplacian of the rates (Boyd et al. 2006,
/// "Randomized gossip algorithms", theorem 3, of one pairing: λ₂ of the expected matrix). rates: pairings of
/// each two peers per round, P × P and symmetric.
double pair_contraction(std::size_t peers, std::span<const double> rates);

/// Rounds over those of full averaging: 1 + a (√D − 1) + (a² + a z)(D − 1), a = 0.1. The bound of that paper
/// (theorem 2, not convex) is σ²/(P ε²) + (ζ D + σ √D)/ε^{3/2} + D/ε: a is the weight of the second term
/// against the first, a² of the third, z = ζ/σ the data heterogeneity (0 = IID).
double round_growth(double delay, double heterogeneity);

}  // namespace gossamer::topology
