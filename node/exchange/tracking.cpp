// Gradient tracking (Di Lorenzo & Scutari 2016, "NEXT"; Nedić, Olshevsky & Shi 2017, "DIGing"): y_i tracks
// the mean of all peers' gradients, so that heterogeneous data leave no bias.
//
//   y⁰ = g⁰;   y = ŷ + g − g_before;   z = x − u(y)
//   x ← z + Σ_j W_ij (z_j − z_i);   ŷ ← y + Σ_j W_ij (y_j − y_i)
//
// u(y) is the optimiser's step for y in the gradient's place: η·y with plain SGD. Two dense vectors travel
// per round: z (tag 0) and y (tag 1). W is doubly stochastic, and may vary in time; rounds synchronous.
//
// At the optimum what mixing rounds off x is felt 1/(η·h) times, h being the least curvature. Hence x is kept
// in two parts, x + low, and differences are formed first: they are exact where peers are near each other,
// and low gathers what is too small for x. Slots: 2 holds y and then ŷ, 3 the gradient of the last round, 4
// low, less u until the round is mixed, 5 z and then what mixing must remember, 6 one difference.
//
// Steps are taken before the mixing, as NEXT has them; DIGing takes them after it. With one curvature L and
// λ an eigenvalue of W, x and y of that mode follow a matrix of determinant λ² − ληL and trace 2λ − ληL: it
// is stable for η·L < 2 and, where λ < 0, η·L < (1 − λ²)/|λ|; 3/2 on a hypercube of 8 (λ = −½). DIGing's
// bound is (1 + λ)²/2, there ⅛. A graph that varies bears less: below 1 on base graphs, below ⅕ where groups
// of 4 reduce fully inside.
#include "tracking.h"

#include "gossip.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kTracker = kTrackerSlot, kBefore = kTrackedSlot, kLow = 4, kSent = 5, kDifference = 6;

class GradientTracking final : public Gossip {
 public:
  explicit GradientTracking(ExchangeHost& host) : Gossip(host, 2) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    // these slots are empty at first, in every view: y begins as g, so that Σ y = Σ g holds of those that are
    // there
    const float keep = round == 0 && !host_.plan().planted.is(Bug::tracker_not_emptied) ? 0.0f : 1.0f;
    // The difference of gradients first: it is exact near the optimum, where y is far smaller than g.
    return {op::Combine{r, kBefore, -keep, {{1.0f, kGradient}}},
            op::Combine{r, kTracker, keep, {{1.0f, kBefore}}},
            op::Combine{r, kBefore, 0, {{1.0f, kGradient}}},
            op::Combine{r, kGradient, 0, {{1.0f, kTracker}}},
            host_.update(r, round),
            op::Combine{r, kLow, keep, {{-1.0f, kGradient}}},
            op::Combine{r, kSent, 0, {{1.0f, kParameters}, {1.0f, kLow}}},
            encode(round, parcel, kSent, 0),
            encode(round, parcel, kTracker, 1)};
  }

 private:
  Op encode(Round round, ParcelId parcel, Slot src, std::uint32_t tag) const {
    return op::encode_exactly(range(parcel), src, round, parcel, tag);
  }

  void mix(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    add_differences(round, parcel, kSent, kLow, kDifference, 0);
    host_.submit(op::Combine{r, kSent, 0, {{1.0f, kParameters}}});
    host_.submit(op::Combine{r, kParameters, 1, {{1.0f, kLow}}});
    host_.submit(op::Combine{r, kSent, -1, {{1.0f, kParameters}}});
    host_.submit(op::Combine{r, kLow, 1, {{-1.0f, kSent}}});  // what the sum could not hold

    host_.submit(op::Combine{r, kSent, 0, {}});
    add_differences(round, parcel, kTracker, kSent, kDifference, 1);
    host_.submit(op::Combine{r, kTracker, 1, kTrackerMixed});
  }
};

std::unique_ptr<Exchange> make_gradient_tracking(ExchangeHost& host) {
  return std::make_unique<GradientTracking>(host);
}

}  // namespace

constinit const Method kGradientTrackingMethod{
    .row = {"gradient_tracking",
            "gossip of parameters and of a tracked mean gradient, for heterogeneous data"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .may_be_stale = false,
              .reads = "aggregate",
              .why_weights = kMeanDrifts,
              .why_code = kWholeState,
              .why_synchronous = kLockstep},
    .make = make_gradient_tracking,
    .buffers = [](const Plan&) { return Buffers{.slots = 5}; },
    .own_steps = OwnSteps::refused,
    .steps_alone = false,  // x changes as it is mixed
    .pattern = Pattern{.vectors = 2, .corrected = true},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels,
                   .vectors = 2,
                   .own = MethodInvariants::Own::tracking}};

}  // namespace gossamer::node
