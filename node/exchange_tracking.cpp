// Gradient tracking (Di Lorenzo & Scutari 2016, "NEXT"; Nedić, Olshevsky & Shi 2017, "DIGing"): y_i tracks
// the mean of all peers' gradients, so that unlike data leave no bias.
//
//   y⁰ = g⁰;   y = ŷ + g − g_before;   x ← Σ_j W_ij (x_j − u_j(y_j));   ŷ ← Σ_j W_ij y_j
//
// u(y) is the optimiser's step for y in the gradient's place: η·y with plain SGD. Two dense vectors travel
// per round: x − u (tag 0) and y (tag 1). Slots: 2 holds y and then ŷ, 3 the gradient of the last round. W is
// doubly stochastic, and may vary in time; rounds synchronous.
//
// Steps are taken before the mixing, as NEXT has them; DIGing takes them after it. With one curvature L and
// λ an eigenvalue of W, x and y of that mode follow a matrix of determinant λ² − ληL and trace 2λ − ληL: it
// is stable for η·L < 2 and, where λ < 0, η·L < (1 − λ²)/|λ|; 3/2 on a hypercube of 8 (λ = −½). DIGing's
// bound is (1 + λ)²/2, there ⅛. A graph that varies bears less: below 1 on base graphs.
#include "gossip.h"

namespace gossamer::node {
namespace {

constexpr Slot kTracker = 2, kBefore = 3;

class GradientTracking final : public Gossip {
 public:
  explicit GradientTracking(ExchangeHost& host) : Gossip(host, 2) {}

  std::size_t slots() const override { return 2; }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    const float keep = round == 0 ? 0.0f : 1.0f;  // both slots are empty at first
    // The difference of gradients first: it is exact near the optimum, where y is far smaller than g.
    return {op::Combine{r, kBefore, -keep, {{1.0f, kGradient}}},
            op::Combine{r, kTracker, keep, {{1.0f, kBefore}}},
            op::Combine{r, kBefore, 0, {{1.0f, kGradient}}},
            op::Combine{r, kGradient, 0, {{1.0f, kTracker}}},
            op::Update{r, round},
            op::Combine{r, kParameters, 1, {{-1.0f, kGradient}}},
            encode(round, parcel, kParameters, 0),
            encode(round, parcel, kTracker, 1)};
  }

 private:
  Op encode(Round round, ParcelId parcel, Slot src, std::uint32_t tag) const {
    return op::encode_exactly(range(parcel), src, round, parcel, tag);
  }

  void mix(Round round, ParcelId parcel) override {
    average(round, parcel, kParameters, 0);
    average(round, parcel, kTracker, 1);
  }

  void average(Round round, ParcelId parcel, Slot slot, std::uint32_t vector) {
    const PeerId self = host_.plan().self;
    const Range r = range(parcel);
    host_.submit(op::Combine{r, slot, weights(round).self_weight(self), {}});
    for (const auto& e : weights(round).in(self))
      host_.submit(op::DecodeAdd{r, slot, e.weight, take(e.peer, inbox(e.peer, parcel, vector)).payload});
  }
};

}  // namespace

std::unique_ptr<Exchange> make_gradient_tracking(ExchangeHost& host) {
  return std::make_unique<GradientTracking>(host);
}

}  // namespace gossamer::node
