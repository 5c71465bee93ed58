// Gradient tracking (Di Lorenzo & Scutari 2016, "NEXT"; Nedić, Olshevsky & Shi 2017, "DIGing"): y_i tracks
// the mean of all peers' gradients, so that unlike data leave no bias.
//
//   y⁰ = g⁰;   y = ŷ + g − g_before;   x ← Σ_j W_ij x_j − u(y);   ŷ ← Σ_j W_ij y_j
//
// u(y) is the optimiser's step for y in the gradient's place: η·y with plain SGD. Two dense vectors travel
// per round: x (tag 0) and y (tag 1). Slots: 2 holds y and then ŷ, 3 the gradient of the last round. W is
// doubly stochastic, and may vary in time; rounds synchronous.
//
// The rate is bounded: with curvatures up to L and λ the least eigenvalue of W, η·L < (1 + λ)²/2, which for a
// hypercube of 8 (λ = −½) is ⅛.
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
    return {op::Combine{r, kBefore, keep, {}},
            op::Combine{r, kTracker, keep, {{1.0f, kGradient}, {-1.0f, kBefore}}},
            op::Combine{r, kBefore, 0, {{1.0f, kGradient}}},
            op::Combine{r, kGradient, 0, {{1.0f, kTracker}}},
            op::Update{r, round},
            encode(round, parcel, kParameters, 0),
            encode(round, parcel, kTracker, 1)};
  }

 private:
  Op encode(Round round, ParcelId parcel, Slot src, std::uint32_t tag) const {
    return op::encode_exactly(range(parcel), src, round, parcel, tag);
  }

  void mix(Round round, ParcelId parcel) override {
    average(round, parcel, kParameters, 0);
    host_.submit(op::Combine{range(parcel), kParameters, 1, {{-1.0f, kGradient}}});
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
