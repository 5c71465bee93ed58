// DiLoCo (Douillard et al. 2023, "DiLoCo: distributed low-communication training of language models"; 2025,
// "Streaming DiLoCo with overlapping communication"). H = exchange.local_steps steps of the job's optimiser,
// whose state is local, lead from the outer parameters φ to x; the outer gradient Δ = φ − x takes an outer
// step of Nesterov's with rate α = exchange.outer_rate and decay μ = exchange.outer_momentum:
//
//   m ← μ m + Δ;   φ ← φ − α (Δ + μ m);   m = 0 at first
//
// Where all peers have one mean (a full graph with equal weights, or weights by samples), Δ is the mean of
// what all sent of theirs, decoded, the own one included, summed in peer order: φ and m are the same bits on
// every peer. Each sends its Δ_i to every other: (P − 1) messages of the codec's size each H steps. The codec
// may be lossy, for example qsgd:bits=4, since Δ_i is formed anew from a φ that all share. An unbiased code
// goes as it is: its error averages out over peers and outer rounds. A code that only contracts (topk, onebit
// ...; qsgd with max norm and 4 bits or more is both) runs under error feedback, without which what it leaves
// out of Δ_i would be lost for good when x returns to φ. What it keeps back comes late, and momentum
// multiplies it: with one bit or one entry in ten, μ = 0.9 diverged on a stiff quadratic and 0.5 came to the
// optimum, hence that default for biased codes. A code that is neither is refused.
//
// On any other graph every peer takes the outer step by its own Δ_i, then φ_i is averaged with neighbours:
//
//   m_i ← μ m_i + Δ_i;   φ_i ← Σ_j W̃_ij (φ_j − α (Δ_j + μ m_j)),   W̃ = I − s (I − W)
//
// One vector an outer round carries both φ and outer gradient. It is D-PSGD with outer steps, and like it
// needs whole dense vectors and doubly stochastic weights; these may vary in time: a parcel's k-th outer
// round uses the k-th matrix. s ≤ 1 is the largest with W̃_ii ≥ ½ (1 for pairs), so that no eigenvalue of W̃
// has a negative real part: such a part λ turns φ's sign from outer round to outer round while m adds up, and
// peers run apart as soon as α h > (1 − μ)(1 + |λ|)/|λ|, where Δ = h φ near an optimum and h comes near 1
// where many inner steps solve the local problem. On a ring λ = −⅓: 0.4, under the usual α = 0.7.
//
// Fragments and delay: outer.h. Slots: φ, m.
#include <algorithm>

#include "method.h"
#include "outer.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class Diloco : public Outer {
 public:
  using Outer::Outer;

 protected:
  /// The outer step by Δ, which stands in g.
  std::vector<Op> outer_step(const OuterRound& m) const {
    const Range r = range(m.parcel);
    const float rate = outer_rate(m.parcel), decay = outer_momentum(m.parcel);
    return {op::Combine{r, kMomentum, m.number == 0 ? 0.0f : decay, {{1.0f, kGradient}}},
            op::Combine{r, kOuter, 1, {{-rate, kGradient}, {-rate * decay, kMomentum}}}};
  }

 private:
  static constexpr Slot kMomentum = kOwn;
};

class ReducedDiloco final : public Diloco {
 public:
  using Diloco::Diloco;

 private:
  std::vector<Op> offer(const OuterRound& m) override {
    const compress::Traits& codec = host_.plan().codec;
    return {encode(m, kOuter, kParameters, false, codec.feedback() && !codec.exact ? 0 : -1)};
  }

  void absorb(const OuterRound& m) override {
    host_.submit(op::Combine{range(m.parcel), kGradient, 0, {}});
    add_mean(m, kGradient);
    if (host_.plan().planted.is(Bug::outer_step_twice))
      for (Op& o : outer_step(m)) host_.submit(std::move(o));
    for (Op& o : outer_step(m)) host_.submit(std::move(o));
  }
};

class GossipedDiloco final : public Diloco {
 public:
  explicit GossipedDiloco(ExchangeHost& host) : Diloco(host), shares_(outer_shares(host.plan().schedule)) {}

 private:
  std::vector<Op> offer(const OuterRound& m) override {
    std::vector<Op> ops{op::Combine{range(m.parcel), kGradient, 0, {{1.0f, kOuter}, {-1.0f, kParameters}}}};
    for (Op& o : outer_step(m)) ops.push_back(std::move(o));
    ops.push_back(encode(m, kOuter, {}, true));
    return ops;
  }

  void absorb(const OuterRound& m) override {
    const auto share = static_cast<float>(shares_[m.number % shares_.size()]);
    const float own = 1 - share * (1 - weights(m).self_weight(host_.plan().self));
    host_.submit(op::Combine{range(m.parcel), kOuter, own, {}});
    add_neighbours(m, kOuter, share);
  }

  const std::vector<double> shares_;  ///< s, by matrix of the schedule
};

/// What feedback keeps back comes late, and momentum multiplies it.
OuterDefaults outer_defaults(const compress::Traits& codec) {
  if (!codec.exact && !codec.unbiased) return {0.7, 0.5};
  return {};
}

std::unique_ptr<Exchange> make_diloco(ExchangeHost& host) {
  if (one_mean(host.plan().schedule)) return std::make_unique<ReducedDiloco>(host);
  return std::make_unique<GossipedDiloco>(host);
}

}  // namespace

constinit const Method kDilocoMethod{
    .row = {"diloco",
            "local_steps steps, then an outer Nesterov step by what all learned; on other graphs than full, "
            "averaged with neighbours"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .code_of_mean = Needs::Code::averaged,
              .may_be_stale = false,
              .reads = "aggregate local_steps outer_rate outer_momentum dense_below",
              .outer = true,
              .why_weights = kMeanDrifts,
              .why_code =
                  "beside a full graph it averages whole vectors, and those do not converge under a lossy "
                  "codec; use codec 'dense', or graph.kind 'full', where outer gradients may be coded",
              .why_code_of_mean =
                  "what it leaves out of outer gradients is lost for good; use 'qsgd', 'topk' or "
                  "'onebit_scaled'",
              .why_synchronous = kOuterDelay},
    .make = make_diloco,
    .buffers = Outer::buffers,
    .pattern = Pattern{.mixing = Pattern::Mixing::outer},
    .invariants = {.own = MethodInvariants::Own::outer_steps},
    .outer_defaults = outer_defaults};

}  // namespace gossamer::node
