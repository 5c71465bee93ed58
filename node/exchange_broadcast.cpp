// Full reduce without slices: every peer sends its whole encoded gradient to every other and adds up what
// came, its own decoded bytes included, in peer order, so that all take the same step to the bit.
//
//   broadcast         each gradient encoded as it is: QSGD (Alistarh et al. 2017, algorithm 1). For unbiased
//   codecs. topk_allgather    error feedback at the sender: for sparse codecs every peer's k values and
//   indices go to all.
//                     (P − 1)·k values per peer, where a tree would need fewer for many peers, but one hop.
#include "full_reduce.h"

namespace gossamer::node {
namespace {

class Broadcast final : public FullReduce {
 public:
  Broadcast(ExchangeHost& host, bool feedback)
      : FullReduce(host), feedback_(feedback ? 0 : -1), own_(host.plan().parcels.size()) {}

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
    if (!own_[parcel]) return;
    for (PeerId j = 0; j < peers_; ++j)
      if (j != self_ && !has(round, parcel, 0, j)) return;
    const Range r = host_.plan().parcels[parcel].range;
    host_.submit(op::Combine{r, kGradient, 0, {}});
    for (PeerId j = 0; j < peers_; ++j) {
      const Payload payload = j == self_ ? std::move(own_[parcel]) : take(round, parcel, 0, j)->payload;
      host_.submit(op::DecodeAdd{r, kGradient, share(j), payload});
    }
    own_[parcel] = nullptr;
    finish(round, parcel);
  }

  int feedback_;
  std::vector<Payload> own_;  ///< per parcel: this round's, until it is used
};

}  // namespace

std::unique_ptr<Exchange> make_broadcast(ExchangeHost& host) {
  return std::make_unique<Broadcast>(host, false);
}
std::unique_ptr<Exchange> make_topk_allgather(ExchangeHost& host) {
  return std::make_unique<Broadcast>(host, true);
}

}  // namespace gossamer::node
