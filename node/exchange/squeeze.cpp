// DeepSqueeze (Tang et al. 2019, "DeepSqueeze: decentralization meets error-compensated compression",
// algorithm 1): gossip of compressed parameters, whose errors are fed back at the sender. No estimate of a
// neighbour is kept, so that the graph may vary in time.
//
//   x½ = x − u;   v = x½ + e;   send C[v];   e ← v − C[v];   x ← x½ + γ Σ_j W_ij (C[v_j] − C[v_i])
//
// Slot 2 holds C[v_i] ("sent"). γ is exchange.gamma: at most 0.1 where the job leaves it open
// (consensus_step.h); at 1 and one bit the error of the codes is as large as the differences between peers.
// What goes dense leaves nothing out, and is mixed by 1.
// Synchronous; W symmetric or at least doubly stochastic.
#include "gossip.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kSent = 2;

class DeepSqueeze final : public Gossip {
 public:
  explicit DeepSqueeze(ExchangeHost& host) : Gossip(host) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override { return own_step(round, parcel); }

 private:
  std::vector<Op> offer(Round round, ParcelId parcel) const override {
    const Range r = range(parcel);
    return {op::Combine{r, kSent, 0, {}}, op::Encode{.range = r,
                                                     .src = kParameters,
                                                     .minus = {},
                                                     .apply_to = kSent,
                                                     .feedback = 0,
                                                     .round = round,
                                                     .parcel = parcel}};
  }

  void mix(Round round, ParcelId parcel) override {
    if (idle(round)) return;
    const auto gamma = static_cast<float>(host_.plan().gamma_in(round, parcel));
    const Range r = range(parcel);
    float sum = 0;
    for (const auto& e : weights(round).in(host_.plan().self)) {
      Inbox& box = inbox(e.peer, parcel);
      host_.submit(op::DecodeAdd{r, kParameters, gamma * e.weight, take(e.peer, box).payload});
      sum += gamma * e.weight;
    }
    host_.submit(with_step(round, {r, kParameters, 1, {{-sum, kSent}}}));
  }
};

std::unique_ptr<Exchange> make_deep_squeeze(ExchangeHost& host) {
  return std::make_unique<DeepSqueeze>(host);
}

}  // namespace

constinit const Method kDeepSqueezeMethod{
    .row = {"deep_squeeze",
            "compressed gossip with error feedback and no estimates (DeepSqueeze); the graph may vary"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::contractive,
              .may_be_stale = false,
              .gamma = Needs::Gamma::parameters,
              .reads = "aggregate gamma local_steps overlap dense_below dense_rounds",
              .why_weights = kMeanDrifts,
              .why_code = "its residual grows without end under error feedback; use 'qsgd:bits=4,norm=max', "
                          "'onebit_scaled' or 'topk'",
              .why_synchronous = kLockstep},
    .make = make_deep_squeeze,
    .buffers = [](const Plan&) { return Buffers{.slots = 1}; },
    .pattern = Pattern{.mixing = Pattern::Mixing::estimates},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels},
    .idle_rounds = true,
    .usual_local_steps = 1};

}  // namespace gossamer::node
