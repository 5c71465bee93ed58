// Full reduce without slices: every peer sends its whole encoded gradient to every other and adds up what
// came, its own decoded bytes included, in peer order, so that all take the same step to the bit.
//
//   broadcast         each gradient encoded as it is: QSGD (Alistarh et al. 2017, algorithm 1). For unbiased
//   codecs. topk_allgather    error feedback at the sender: for sparse codecs every peer's k values and
//   indices go to all.
//                     (P − 1)·k values per peer, where a tree would need fewer for many peers, but one hop.
//
// With an aggregation rule (median, krum ...) in the sum's place, every vector counts alike, whatever its
// batch: what a rule bears is a number of peers. All peers give the rule the same vectors in the same order,
// and so take the same step to the bit. `vote` with codec sign_vote is signSGD with majority vote (Bernstein
// et al. 2018): g ← ±1. A rule by entry runs parcel by parcel and decodes P vectors of a parcel's size. One
// that measures distances between whole gradients runs when the round's last parcel has come (`whole_` counts
// them): no parcel's step overlaps the gradient's computation then, and P + 1 vectors of the model's size are
// held decoded, beside the P payloads that came.
#include <algorithm>
#include <numeric>
#include <utility>

#include "aggregation.h"
#include "full_reduce.h"

namespace gossamer::node {
namespace {

class Broadcast final : public FullReduce {
 public:
  Broadcast(ExchangeHost& host, bool feedback)
      : FullReduce(host),
        feedback_(feedback ? 0 : -1),
        own_(host.plan().parcels.size()),
        whole_(own_.size()) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    std::vector<Op> ops = clipped(parcel);
    const std::vector<Op> encoding{op::Encode{.range = host_.plan().parcels[parcel].range,
                                              .src = kGradient,
                                              .minus = {},
                                              .apply_to = {},
                                              .feedback = feedback_,
                                              .momentum = momentum(),
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
  void start(Round, ParcelId) override {}

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
    const Range r = host_.plan().parcels[parcel].range;
    host_.submit(op::Combine{r, kGradient, 0, {}});
    for (PeerId j = 0; j < peers_; ++j)
      host_.submit(op::DecodeAdd{r, kGradient, share(j), payload_of(j, round, parcel)});
    finish(round, parcel);
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

}  // namespace

std::unique_ptr<Exchange> make_broadcast(ExchangeHost& host) {
  return std::make_unique<Broadcast>(host, false);
}
std::unique_ptr<Exchange> make_topk_allgather(ExchangeHost& host) {
  return std::make_unique<Broadcast>(host, true);
}

}  // namespace gossamer::node
