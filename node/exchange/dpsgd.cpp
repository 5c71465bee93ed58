// D-PSGD (Lian et al. 2017). u_i is peer i's optimiser step; momentum and Adam state stay local.
//
//   adapt-then-combine     x_i ← Σ_j W_ij (x_j − u_j)     every peer steps, sends what it has then, averages
//   overlap = true         x_i ← Σ_j W_ij x_j − u_i       x is sent before the gradient at it is computed, so
//   that it
//                                                         travels meanwhile; the form of the paper (its eq.
//                                                         2)
//
// What travels is dense parameters: D-PSGD with a lossy code of x does not converge. In synchronous rounds
// the message of round t itself is mixed and, once used, dropped. With staleness the newest message of each
// neighbour is kept and mixed every round until a newer one comes, without a bound at its fair part
// (gossip.h); the rest of its weight, and that of a neighbour that has not been heard yet, goes to the peer
// itself.
//
// With an aggregation rule, x_i ← rule of x_i and its neighbours' x_j in the sum's place; rounds are
// synchronous. Every vector counts alike, except under self_clip, x_i + Σ_j W_ij clip(x_j − x_i) (He et al.
// 2022), whose weights are W's. A rule by entry runs parcel by parcel; one that measures distances between
// whole models runs when the round's last parcel has come (`came_` counts them), on d + 2 decoded vectors of
// the model's size for d neighbours, beside the d payloads that came.
#include <algorithm>
#include <utility>

#include "aggregation.h"
#include "gossip.h"
#include "message_state.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class Dpsgd final : public Gossip {
 public:
  explicit Dpsgd(ExchangeHost& host)
      : Gossip(host),
        by_weight_(host.plan().exchange.aggregate.starts_with("self_clip")),
        newest_(host.plan().schedule.links(host.plan().self)) {
    for (auto& per_parcel : newest_) per_parcel.resize(host.plan().parcels.size());
  }

  void begin_round(Gradient& gradient) override {
    Gossip::begin_round(gradient);
    if (!overlap() || !sends(gradient.round)) return;
    const auto parcels = static_cast<ParcelId>(host_.plan().parcels.size());
    for (ParcelId p = 0; p < parcels; ++p) host_.submit(encode(gradient.round, p));
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    if (overlap()) return {host_.update(r, round)};
    std::vector<Op> ops{host_.step(r, round)};
    if (sends(round)) ops.push_back(encode(round, parcel));
    return ops;
  }

  void on_encoded(const Encoded& e) override {
    for (const PeerId to : weights(e.round).out(host_.plan().self))
      if (host_.plan().exchange.staleness || host_.can_send(to, e.parcel))
        host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
      else
        host_.count_held_back();
  }

  void archive(Archive archive) override {
    Gossip::archive(archive);
    for (const PeerId p : newest_.peers()) archive_payloads(archive.part("newest", p), newest_[p]);
  }

 private:
  bool overlap() const { return host_.plan().exchange.overlap; }
  bool sends(Round round) const { return !weights(round).out(host_.plan().self).empty(); }
  Op encode(Round round, ParcelId parcel) const {
    op::Encode e{.range = range(parcel),
                 .src = kParameters,
                 .minus = {},
                 .apply_to = {},
                 .round = round,
                 .parcel = parcel};
    return e;
  }

  void mix(Round round, ParcelId parcel) override {
    const auto neighbours = weights(round).in(host_.plan().self);
    const RuleScope rule = host_.plan().rule;
    if (rule == RuleScope::none || neighbours.empty()) return average(round, parcel);
    for (const auto& e : neighbours) refresh(round, e.peer, parcel);
    if (rule == RuleScope::parcel) return aggregate(round, {parcel});
    came_.push_back(parcel);
    if (came_.size() < host_.plan().parcels.size()) return;
    std::sort(came_.begin(), came_.end());
    aggregate(round, std::exchange(came_, {}));
  }

  void aggregate(Round round, const std::vector<ParcelId>& parcels) {
    const PeerId self = host_.plan().self;
    const auto neighbours = weights(round).in(self);
    std::vector<topology::Edge> row(neighbours.begin(), neighbours.end());  // peers ascending
    const auto place = std::find_if(row.begin(), row.end(), [&](const auto& e) { return e.peer > self; });
    const auto own = row.insert(place, {self, weights(round).self_weight(self)});
    op::Aggregate op{
        {}, kParameters, {}, equal_weights(row.size()), static_cast<std::size_t>(own - row.begin())};
    for (const ParcelId p : parcels) op.ranges.push_back(range(p));
    op.vectors.resize(row.size());
    for (std::size_t v = 0; v < row.size(); ++v) {
      if (by_weight_) op.weights[v] = row[v].weight;
      if (row[v].peer == self) continue;
      for (const ParcelId p : parcels)
        op.vectors[v].push_back(std::exchange(newest_[row[v].peer][p], nullptr));
    }
    host_.submit(std::move(op));
    for (const ParcelId p : parcels)
      if (overlap()) host_.submit(op::Combine{range(p), kParameters, 1, {{-1.0f, kGradient}}});
  }

  void average(Round round, ParcelId parcel) {
    const PeerId self = host_.plan().self;
    const Range r = range(parcel);
    float own = weights(round).self_weight(self);
    for (const auto& e : weights(round).in(self)) {
      refresh(round, e.peer, parcel);
      if (!host_.plan().planted.is(Bug::weights_not_renormalised))
        own += e.weight - (newest_[e.peer][parcel] ? weight(e, round, parcel) : 0);
    }
    host_.submit(op::Combine{r, kParameters, own, {}});
    for (const auto& e : weights(round).in(self)) {
      Payload& newest = newest_[e.peer][parcel];
      if (!newest) continue;
      host_.submit(op::DecodeAdd{r, kParameters, weight(e, round, parcel), newest});
      if (synchronous()) newest = nullptr;
    }
    if (overlap()) host_.submit(op::Combine{r, kParameters, 1, {{-1.0f, kGradient}}});
  }

  /// Of a neighbour that has been heard. It mixes every round, as this peer does.
  float weight(const topology::Edge& e, Round round, ParcelId parcel) {
    return e.weight * fair_part(round + 1, inbox(e.peer, parcel).seen.value_or(round) + 1);
  }

  /// Moves waiting messages to newest_: all that came, or in synchronous rounds those up to this round.
  void refresh(Round round, PeerId from, ParcelId parcel) {
    Inbox& box = inbox(from, parcel);
    while (!box.waiting.empty() && (!synchronous() || box.waiting.front().round <= round))
      newest_[from][parcel] = take(from, box).payload;
  }

  const bool by_weight_;                 ///< the rule weighs vectors as W does
  ByPeer<std::vector<Payload>> newest_;  ///< [peer][parcel]
  std::vector<ParcelId> came_;           ///< rules of model scope: parcels whose neighbours have come
};

std::unique_ptr<Exchange> make_dpsgd(ExchangeHost& host) {
  if (closes_early(host.plan().exchange)) return make_partial_dpsgd(host);
  return std::make_unique<Dpsgd>(host);
}

}  // namespace

constinit const Method kDpsgdMethod{
    .row = {"dpsgd",
            "step, then average dense parameters with neighbours (D-PSGD); any graph with doubly stochastic "
            "weights"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .rules = Needs::Rules::parameters,
              .partial = Needs::Partial::parameters,
              .reads = "aggregate overlap",
              .why_weights = kMeanDrifts,
              .why_code = kWholeState},
    .make = make_dpsgd,
    .pattern = Pattern{},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels, .newest_only = true}};

constinit const Method kLocalSgdMethod{
    .row = {"local_sgd",
            "exchange.local_steps steps alone, then one round of dpsgd; on a full graph the mean of all"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .rules = Needs::Rules::parameters,
              .may_be_stale = false,
              .reads = "aggregate local_steps",
              .why_weights = kMeanDrifts,
              .why_code = kWholeState,
              .why_synchronous = kLockstep},
    .make = make_dpsgd,
    .pattern = Pattern{},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels},
    .idle_rounds = true};

constinit const Method kEpidemicMethod{
    .row = {"epidemic",
            "dpsgd with whoever was drawn this round (epidemic learning); graph 'epidemic', or any"},
    .needs = {.code = Needs::Code::exact,
              .rules = Needs::Rules::parameters,
              .may_lose = true,
              .reads = "aggregate",
              .why_code = kWholeState},
    .make = make_dpsgd,
    .pattern = Pattern{.own_graph = "epidemic"},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels, .newest_only = true}};

}  // namespace gossamer::node
