// Exact diffusion, also called D² (Yuan et al. 2019, "Exact diffusion for distributed optimization and
// learning"; Tang et al. 2018, "D²: decentralized training over decentralized data"): D-PSGD with a
// correction by which heterogeneous data leave no bias.
//
//   z = x − u − y;   d = Σ_j ½W_ij (z_j − z_i);   x ← z + d;   y ← y − d,   y = 0 at first
//
// which is x ← Σ_j W̃_ij (2x − x_before − u + u_before)_j with W̃ = (I + W)/2, written so that nothing drifts:
// the sum of all y stays 0, since z_j − z_i is formed first, is exact where peers are near each other, and is
// the opposite at the other end. Slots: 2 holds y, 3 z, 4 2d, 5 one difference. What travels is dense; W is
// symmetric and static, rounds synchronous. The optimiser is plain SGD: the correction holds for steps u that
// depend on the gradient at x alone.
#include "gossip.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kY = 2, kZ = 3, kSum = 4, kDifference = 5;

class ExactDiffusion final : public Gossip {
 public:
  explicit ExactDiffusion(ExchangeHost& host) : Gossip(host) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    return {op::Combine{r, kY, round == 0 ? 0.0f : 1.0f, {}}, host_.update(r, round),
            op::Combine{r, kZ, 0, {{1.0f, kParameters}, {-1.0f, kGradient}, {-1.0f, kY}}},
            op::encode_exactly(r, kZ, round, parcel)};
  }

 private:
  void mix(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    host_.submit(op::Combine{r, kSum, 0, {}});
    add_differences(round, parcel, kZ, kSum, kDifference);
    host_.submit(op::Combine{r, kParameters, 0, {{1.0f, kZ}, {0.5f, kSum}}});
    host_.submit(op::Combine{r, kY, 1, {{-0.5f, kSum}}});
  }
};

std::unique_ptr<Exchange> make_exact_diffusion(ExchangeHost& host) {
  return std::make_unique<ExactDiffusion>(host);
}

}  // namespace

constinit const Method kExactDiffusionMethod{
    .row =
        {"exact_diffusion",
         "gossip with a correction by which heterogeneous data leave no bias (D2); symmetric static graph"},
    .needs =
        {.weights = Needs::Weights::symmetric,
         .code = Needs::Code::exact,
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
    .make = make_exact_diffusion,
    .buffers = [](const Plan&) { return Buffers{.slots = 4}; },
    .own_steps = OwnSteps::refused,
    .steps_alone = false,  // x changes as it is mixed
    .pattern = Pattern{.corrected = true},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels}};

}  // namespace gossamer::node
