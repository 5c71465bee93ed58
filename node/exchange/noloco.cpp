// NoLoCo (Kolehmainen et al. 2025, "NoLoCo: no-all-reduce low communication training method for large
// models"): H = exchange.local_steps steps of the job's optimiser lead from the slow weights φ to x; then
// pairs that were drawn at random average what they learned, Δ = x − φ, and pull their φ together:
//
//   m ← β m + α mean(Δ) + γ (mean(φ) − φ_i);   φ ← φ + m;   m = 0 at first
//
// α = exchange.outer_rate, β = exchange.outer_momentum, γ = exchange.gamma. The pairs are those of graph
// 'matching', drawn from graph.seed, which all peers read: nobody coordinates, and nothing is ever reduced
// over all. Of an odd number one peer rests: its means are its own. Any other graph with doubly stochastic
// weights may stand in the pairs' place: mean(v) = Σ_j W_ij v_j, by the k-th matrix in a parcel's k-th
// outer round.
//
// Both means travel as one dense vector s, since only their sum is used:
//
//   s_j = α x_j + (γ − α) φ_j;   m_i ← β m_i + Σ_j W_ij s_j − γ φ_i
//
// Doubly stochastic weights leave the mean of all φ to DiLoCo's heavy ball on the mean Δ; γ acts on what
// peers differ by alone. On a quadratic with heterogeneous data, 6 and 7 peers in pairs, every γ tried from
// 0.15 to 1 came to the optimum under a falling rate; the paper wants β < γ < √(2 + β²), and the default is γ
// = β + 0.1.
//
// Fragments and delay: outer.h. Slots: φ, m.
#include <algorithm>

#include "method.h"
#include "outer.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class Noloco final : public Outer {
 public:
  using Outer::Outer;

 private:
  static constexpr Slot kMomentum = kOwn;

  std::vector<Op> offer(const OuterRound& m) override {
    const Plan& plan = host_.plan();
    const Range r = range(m.parcel);
    const float alpha = outer_rate(m.parcel), beta = outer_momentum(m.parcel),
                gamma = static_cast<float>(plan.gamma);
    return {op::Combine{r, kGradient, 0, {{alpha, kParameters}, {gamma - alpha, kOuter}}},
            op::Combine{r,
                        kMomentum,
                        m.number == 0 ? 0.0f : beta,
                        {{weights(m).self_weight(plan.self), kGradient}, {-gamma, kOuter}}},
            encode(m, kGradient, {}, true)};
  }

  void absorb(const OuterRound& m) override {
    add_neighbours(m, kMomentum);
    host_.submit(op::Combine{range(m.parcel), kOuter, 1, {{1.0f, kMomentum}}});
  }
};

/// The paper's γ is a little above its β.
double gamma_above(const ExchangeSettings&, double momentum) { return std::min(1.0, momentum + 0.1); }

std::unique_ptr<Exchange> make_noloco(ExchangeHost& host) { return std::make_unique<Noloco>(host); }

}  // namespace

constinit const Method kNolocoMethod{
    .row =
        {"noloco",
         "local_steps steps, then momentum towards what a pair learned (NoLoCo); graph 'matching', or any"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .may_be_stale = false,
              .gamma = Needs::Gamma::own,
              .reads = "aggregate gamma local_steps outer_rate outer_momentum",
              .outer = true,
              .why_weights = kMeanDrifts,
              .why_code = kWholeState,
              .why_synchronous = kOuterDelay},
    .make = make_noloco,
    .buffers = Outer::buffers,
    .pattern = Pattern{.mixing = Pattern::Mixing::pull},
    .invariants = {.own = MethodInvariants::Own::outer_pulls},
    .outer_defaults =
        [](const compress::Traits&) {
          return OuterDefaults{0.7, 0.5};
        },
    .own_gamma = gamma_above};

}  // namespace gossamer::node
