// SparseLoCo (Sarfi et al. 2025, "Communication efficient LLM pre-training with SparseLoCo"): H =
// exchange.local_steps steps of the job's optimiser, then each peer sends a few entries of its outer gradient
// Δ = φ − x in a few bits and keeps the rest for later:
//
//   e ← β e + Δ;   q = C[e], sent;   e ← e − q;   φ ← φ − α · mean(q);   e = 0 at first
//
// C is the job's codec, for example topk:density=0.02,values=two_bit; β = exchange.feedback_decay; α =
// exchange.outer_rate. What e carries over from outer round to outer round does what outer momentum does in
// DiLoCo, so that there is none; β < 1 lets go of what became stale. At a fixed point mean(Δ) = (1 − β)
// mean(e): nothing is lost with β = 1, and little where what is kept back is small.
//
// Needs one mean for all (a full graph): messages hold nothing but q, so that two peers whose φ differ would
// stay apart. All sum the same decoded bytes in peer order: φ is the same bits on every peer. Fragments and
// delay: outer.h. Slots: φ, e.
#include "method.h"
#include "outer.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class SparseLoco final : public Outer {
 public:
  using Outer::Outer;

 private:
  static constexpr Slot kResidual = kOwn;

  std::vector<Op> offer(const OuterRound& m) override {
    const auto decay = static_cast<float>(kFeedbackDecay.of(host_.plan().exchange));
    return {
        op::Combine{
            range(m.parcel), kResidual, m.number == 0 ? 0.0f : decay, {{1.0f, kOuter}, {-1.0f, kParameters}}},
        encode(m, kResidual, {}, false)};
  }

  void absorb(const OuterRound& m) override {
    const Range r = range(m.parcel);
    if (!host_.plan().planted.is(Bug::residual_kept_whole))
      host_.submit(op::DecodeAdd{r, kResidual, -1.0f, own_[m.parcel]});
    host_.submit(op::Combine{r, kGradient, 0, {}});
    add_mean(m, kGradient);
    host_.submit(op::Combine{r, kOuter, 1, {{-outer_rate(m.parcel), kGradient}}});
  }
};

std::unique_ptr<Exchange> make_sparse_loco(ExchangeHost& host) { return std::make_unique<SparseLoco>(host); }

constexpr double kDrawnDecays[] = {0.5, 0.95, 1};
constexpr OwnKey kSparseLocoKeys[] = {
    {.value = kFeedbackDecay,
     .help =
         "share of what was not sent that is kept for the next exchange; at 1 of a low density what is sent "
         "is old, and may make the run diverge: then lower it, or outer_rate",
     .low = 0,
     .high = 1,
     .drawn = kDrawnDecays}};

}  // namespace

constinit const Method kSparseLocoMethod{
    .row = {"sparse_loco",
            "local_steps steps, then a few entries of what was learned to all, the rest later (SparseLoCo)"},
    .needs = {.graph = Needs::Graph::one_mean,
              .code = Needs::Code::feedback,
              .may_vary = false,
              .may_be_stale = false,
              .reads = "aggregate local_steps outer_rate dense_below",
              .outer = true,
              .why_graph =
                  "its messages hold nothing of the parameters themselves, so that peers with different "
                  "neighbours drift apart; use graph.kind 'full', or method 'choco', 'noloco' or "
                  "'diloco' for gossip",
              .why_code = "its residual grows without end under error feedback; use "
                          "'topk:density=0.02,values=two_bit'",
              .why_synchronous = kOuterDelay},
    .make = make_sparse_loco,
    .buffers = Outer::buffers,
    .pattern = Pattern{.mixing = Pattern::Mixing::full},
    .invariants = {.own = MethodInvariants::Own::outer_sparse},
    .outer_defaults =
        [](const compress::Traits&) {
          return OuterDefaults{1, 0};
        },
    .keys = kSparseLocoKeys};

}  // namespace gossamer::node
