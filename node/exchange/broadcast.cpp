// Full reduce without slices: every peer sends its whole encoded gradient to every other and adds up what
// came, its own decoded bytes included, in peer order, so that all take the same step to the bit.
//
//   broadcast        each gradient encoded as it is: QSGD (Alistarh et al. 2017, algorithm 1). Codecs that
//                    are not unbiased (one bit) have their errors fed back at the sender.
//   topk_allgather   error feedback whatever the codec: for sparse ones every peer's k values and indices go
//                    to all. (P − 1)·k values per peer, where a tree would need fewer, but one hop.
//
// With an aggregation rule (median, krum ...) in the sum's place, every vector counts alike, whatever its
// batch: what a rule bears is a number of peers. All peers give the rule the same vectors in the same order,
// and so take the same step to the bit. `vote` with codec sign_vote is signSGD with majority vote (Bernstein
// et al. 2018): g ← ±1. A rule by entry runs parcel by parcel and decodes P vectors of a parcel's size. One
// that measures distances between whole gradients runs when the round's last parcel has come (`whole_` counts
// them): no parcel's step overlaps the gradient's computation then, and P + 1 vectors of the model's size are
// held decoded, beside the P payloads that came.
//
// The noisier the honest gradients, the less a rule bears: where their noise exceeds the gradient itself,
// Krum takes zeros for the most likely vector, and a little shift (ALIE) hides in it. exchange.send_momentum
// = β > 0 makes every peer send m ← βm + (1 − β)g (from 0 on) in g's place, of (1 − β)/(1 + β) of its
// variance, before the codec (Karimireddy, He & Jaggi 2021, "Learning from history for Byzantine robust
// optimization"; El Mhamdi, Guerraoui & Rouault 2021); the optimiser needs no momentum then.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "aggregation.h"
#include "full_reduce.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kMomentum = 2;  ///< m

/// m, where momentum is sent.
std::size_t own_slots(const Plan& plan) { return kSendMomentum.of(plan.exchange) > 0 ? 1 : 0; }

class Broadcast final : public FullReduce {
 public:
  Broadcast(ExchangeHost& host, bool feedback)
      : FullReduce(host, own_slots(host.plan())),
        feedback_(feedback ? 0 : -1),
        own_(host.plan().parcels.size()),
        whole_(own_.size()) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = host_.plan().parcels[parcel].range;
    const float kept = host_.plan().parcels[parcel].state ? 0.0f : sent_momentum();
    std::vector<Op> ops = prepared(round, parcel);
    if (kept > 0) {
      const std::vector<Op> averaging{
          op::Combine{r, kMomentum, round == 0 ? 0.0f : kept, {{1 - kept, kGradient}}}};
      ops.insert(ops.end(), averaging.begin(), averaging.end());
    }
    const std::vector<Op> encoding{op::Encode{.range = r,
                                              .src = kept > 0 ? kMomentum : kGradient,
                                              .minus = {},
                                              .apply_to = {},
                                              .feedback = feedback_,
                                              .momentum = momentum(parcel),
                                              .exact = peers_ == 1,
                                              .round = round,
                                              .parcel = parcel}};
    ops.insert(ops.end(), encoding.begin(), encoding.end());
    return ops;
  }

  void on_encoded(const Encoded& e) override {
    for (PeerId to = 0; to < peers_; ++to)
      if (to != self_) host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
    own_[e.parcel] = e.payload;
    advance(e.parcel);
  }

 private:
  float sent_momentum() const { return static_cast<float>(kSendMomentum.of(host_.plan().exchange)); }
  void start(Round, ParcelId) override {}
  std::optional<std::size_t> entries_of(PeerId, ParcelId parcel, std::uint32_t tag) const override {
    return tag == 0 ? std::optional(host_.plan().parcels[parcel].range.size) : std::nullopt;
  }

  void progress(Round round, ParcelId parcel) override {
    if (whole_[parcel] || !all_came(round, parcel)) return;
    if (host_.plan().rule == RuleScope::none) return sum(round, parcel);
    if (host_.plan().rule == RuleScope::parcel) return aggregate(round, {parcel});
    whole_[parcel] = true;
    if (std::find(whole_.begin(), whole_.end(), false) != whole_.end()) return;
    std::vector<ParcelId> all(whole_.size());
    std::iota(all.begin(), all.end(), ParcelId{0});
    aggregate(round, all);
    whole_.assign(whole_.size(), false);
  }

  bool all_came(Round round, ParcelId parcel) const {
    if (!own_[parcel]) return false;
    for (PeerId j = 0; j < peers_; ++j)
      if (j != self_ && !has(round, parcel, 0, j)) return false;
    return true;
  }

  Payload payload_of(PeerId j, Round round, ParcelId parcel) {
    return j == self_ ? std::exchange(own_[parcel], nullptr) : take(round, parcel, 0, j)->payload;
  }

  void sum(Round round, ParcelId parcel) {
    Sum sum;
    for (PeerId j = 0; j < peers_; ++j) sum.emplace_back(share(j), payload_of(j, round, parcel));
    finish_with(round, parcel, std::move(sum));
  }

  void aggregate(Round round, const std::vector<ParcelId>& parcels) {
    op::Aggregate op{{}, kGradient, std::vector<std::vector<Payload>>(peers_), equal_weights(peers_), self_};
    for (const ParcelId p : parcels) {
      op.ranges.push_back(host_.plan().parcels[p].range);
      for (PeerId j = 0; j < peers_; ++j) op.vectors[j].push_back(payload_of(j, round, p));
    }
    host_.submit(std::move(op));
    for (const ParcelId p : parcels) finish(round, p);
  }

  int feedback_;
  std::vector<Payload> own_;  ///< per parcel: this round's, until it is used
  std::vector<bool> whole_;  ///< rules of model scope, per parcel: all has come, other parcels are waited for
};

Buffers broadcast_buffers(const Plan& plan) {
  return closes_early(plan.exchange) ? Buffers{} : FullReduce::buffers(plan, own_slots(plan));
}

std::unique_ptr<Exchange> make_broadcast(ExchangeHost& host, bool feedback) {
  if (closes_early(host.plan().exchange)) return make_partial_broadcast(host, feedback);
  return std::make_unique<Broadcast>(host, feedback);
}

std::unique_ptr<Exchange> make_broadcast(ExchangeHost& host) {
  const compress::Traits& codec = host.plan().codec;
  return make_broadcast(host, !codec.unbiased && codec.feedback());
}
std::unique_ptr<Exchange> make_topk_allgather(ExchangeHost& host) { return make_broadcast(host, true); }

std::string broadcast_refusal(const ExchangeSettings& exchange) {
  if (!closes_early(exchange) || kSendMomentum.of(exchange) == 0) return {};
  return fmt::format(
      "exchange.send_momentum = {} is not taken with exchange.backup = {} and run.straggler = \"{}\": a late "
      "message would hold gradients that the next one holds too; use backup = 0 and straggler = \"wait\", or "
      "optimizer.kind = 'momentum' in send_momentum's place",
      kSendMomentum.of(exchange), exchange.backup, exchange.straggler);
}

constexpr double kDrawnMomentum[] = {0, 0, 0.5};
constexpr OwnKey kBroadcastKeys[] = {
    {.value = kSendMomentum,
     .help = "send an average of gradients that keeps this share a round, so that rules see less noise",
     .low = 0,
     .high = 1,
     .open_high = true,
     .drawn = kDrawnMomentum}};

}  // namespace

constinit const Method kBroadcastMethod{
    .row = {"broadcast",
            "every peer's encoded gradient to every other before the step (QSGD, algorithm 1; biased codecs "
            "under error feedback)"},
    .needs = {.graph = Needs::Graph::complete,
              .code = Needs::Code::averaged,
              .rules = Needs::Rules::gradients,
              .may_vary = false,
              .may_be_stale = false,
              .codes_gradients = true,
              .partial = Needs::Partial::gradients,
              .reads = "aggregate dense_below dense_rounds",
              .why_graph = kAllLinked,
              .why_code = "what it leaves out of a gradient is lost for good; use 'qsgd' or 'onebit_scaled'",
              .why_synchronous = kOneSum},
    .make = make_broadcast,
    .buffers = broadcast_buffers,
    .own_steps = OwnSteps::mean,
    .pattern = Pattern{.mixing = Pattern::Mixing::full},
    .invariants = {.all_alike = true},
    .refusal = broadcast_refusal,
    .keys = kBroadcastKeys};

constinit const Method kTopkAllgatherMethod{
    .row = {"topk_allgather",
            "the same with error feedback whatever the codec, for sparse ones: all k values to all"},
    .needs =
        {.graph = Needs::Graph::complete,
         .code = Needs::Code::feedback,
         .may_vary = false,
         .may_be_stale = false,
         .codes_gradients = true,
         .sparse_feedback = true,
         .partial = Needs::Partial::gradients,
         .reads = "aggregate dense_below dense_rounds",
         .why_graph = kAllLinked,
         .why_code =
             "its residual grows without end under error feedback; use 'topk' or 'qsgd:bits=4,norm=max', or "
             "method 'broadcast'",
         .why_synchronous = kOneSum},
    .make = make_topk_allgather,
    .buffers = broadcast_buffers,
    .own_steps = OwnSteps::mean,
    .pattern = Pattern{.mixing = Pattern::Mixing::full},
    .invariants = {.all_alike = true}};

}  // namespace gossamer::node
