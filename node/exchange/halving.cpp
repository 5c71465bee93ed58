// Dense all-reduce in 2 log₂P steps, for layers so small that the ring's 2(P − 1) messages in a row cost
// more than the bytes: recursive halving, then recursive doubling (Rabenseifner 2004; Thakur, Rabenseifner &
// Gropp 2005).
//
// The Q = 2^steps peers that have a rank cut the parcel into Q slices; a block is 2^j slices in a row that
// begin at a multiple of 2^j.
//   halving    step s = 0 … steps − 1: of the block of 2·d slices that holds `rank_`, d = Q / 2^(s+1), keep
//   the
//              half that holds the rank, send the other to the partner rank_ ^ d, add what comes of the own.
//              The peer then holds the whole sum of slice rank_.
//   doubling   step s = steps … 2·steps − 1: send the block of d = 2^(s−steps) summed slices to the partner
//              rank_ ^ d, whose block stands beside it.
// Peers in excess of Q, where P is no power of two, stand by (Halving): the odd peer of each of the first
// pairs sends its vector to the even one before all (kFold) and gets the sum after all (kUnfold).
//
// By the cost model (allreduce_choice.h) 8 peers wait 60 ms in place of the ring's 140 ms at 10 ms and 100
// Mbit/s, and the bytes are the same; that it passes over memory more often than the ring tells from 40
// million entries on. Folding moves two whole vectors more: there 6 peers do better by it under 68 000
// entries, and by the ring above.
//
// tag = kStep + s; `step_` is the step whose message is awaited. Each slice is summed at one peer and its
// bytes are taken by all, hence identical bits.
#include "allreduce_choice.h"
#include "full_reduce.h"

namespace gossamer::node {
namespace {

class HalvingAllreduce final : public FullReduce {
 public:
  HalvingAllreduce(ExchangeHost& host, std::shared_ptr<RoundSums> sums)
      : FullReduce(host, 0, std::move(sums), kReduced),
        halving_(peers_),
        rank_(halving_.rank(self_)),
        step_(host.plan().parcels.size()),
        unfolded_(host.plan().parcels.size()) {}

  std::vector<Op> on_ready(Round, ParcelId parcel) override {
    return {op::Combine{whole(parcel), kReduced, 0, {{share(self_), kGradient}}}};
  }

  void on_encoded(const Encoded& e) override {
    host_.send(receiver(e.tag), {e.round, e.parcel, e.tag, e.entries, e.payload});
  }

 private:
  static constexpr std::uint32_t kFold = 0, kUnfold = 1, kStep = 2;

  Range whole(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  bool doubling(std::uint32_t step) const { return step >= halving_.steps; }
  /// Slices in the block that is sent at a step.
  PeerId width(std::uint32_t step) const {
    return PeerId{1} << (doubling(step) ? step - halving_.steps : halving_.steps - 1 - step);
  }
  PeerId partner(std::uint32_t step) const { return rank_ ^ width(step); }
  PeerId receiver(std::uint32_t tag) const {
    if (tag == kFold) return self_ - 1;
    if (tag == kUnfold) return self_ + 1;
    return halving_.peer(partner(tag - kStep));
  }
  /// The block of so many slices that holds a slice.
  Range block(ParcelId parcel, PeerId slice, PeerId width) const {
    const PeerId first = slice & ~(width - 1);
    const Range begin = slice_of(whole(parcel), first, halving_.ranks),
                end = slice_of(whole(parcel), first + width - 1, halving_.ranks);
    return {begin.begin, end.begin + end.size - begin.begin};
  }

  std::optional<std::size_t> entries_of(PeerId from, ParcelId parcel, std::uint32_t tag) const override {
    if (tag == kFold || tag == kUnfold) {
      const bool sends = tag == kFold ? halving_.folded(self_) && !halving_.idle(self_) && from == self_ + 1
                                      : halving_.idle(self_) && from + 1 == self_;
      return sends ? std::optional(whole(parcel).size) : std::nullopt;
    }
    const std::uint32_t step = tag - kStep;
    if (halving_.idle(self_) || step >= 2 * halving_.steps || from != halving_.peer(partner(step)))
      return std::nullopt;
    return block(parcel, doubling(step) ? partner(step) : rank_, width(step)).size;
  }

  void encode(Round round, ParcelId parcel, Range r, std::uint32_t tag) {
    host_.submit(op::encode_exactly(r, kReduced, round, parcel, tag));
  }
  void send_block(Round round, ParcelId parcel) {
    const std::uint32_t step = step_[parcel];
    const PeerId of = doubling(step) ? rank_ : partner(step);
    encode(round, parcel, block(parcel, of, width(step)), kStep + step);
  }

  void start(Round round, ParcelId parcel) override {
    step_[parcel] = 0;
    unfolded_[parcel] = !halving_.folded(self_);
    if (halving_.idle(self_))
      encode(round, parcel, whole(parcel), kFold);
    else if (unfolded_[parcel])
      send_block(round, parcel);
  }

  void progress(Round round, ParcelId parcel) override {
    if (halving_.idle(self_)) return await_sum(round, parcel);
    if (!unfolded_[parcel]) {
      const auto message = take(round, parcel, kFold, self_ + 1);
      if (!message) return;
      host_.submit(op::DecodeAdd{whole(parcel), kReduced, 1.0f, message->payload});
      unfolded_[parcel] = true;
      send_block(round, parcel);
    }
    std::uint32_t& step = step_[parcel];
    while (auto message = take(round, parcel, kStep + step, halving_.peer(partner(step)))) {
      if (doubling(step))
        overwrite(block(parcel, partner(step), width(step)), kReduced, message->payload);
      else
        host_.submit(op::DecodeAdd{block(parcel, rank_, width(step)), kReduced, 1.0f, message->payload});
      if (++step == 2 * halving_.steps) return end(round, parcel);
      send_block(round, parcel);
    }
  }

  void await_sum(Round round, ParcelId parcel) {
    const auto message = take(round, parcel, kUnfold, self_ - 1);
    if (!message) return;
    overwrite(whole(parcel), kReduced, message->payload);
    finish(round, parcel);
  }
  void end(Round round, ParcelId parcel) {
    if (halving_.folded(self_)) encode(round, parcel, whole(parcel), kUnfold);
    finish(round, parcel);
  }

  const Halving halving_;
  const PeerId rank_;                ///< without meaning where idle
  std::vector<std::uint32_t> step_;  ///< per parcel
  std::vector<bool> unfolded_;       ///< per parcel: the other of the pair has been added, or there is none
};

}  // namespace

std::unique_ptr<Exchange> make_halving_allreduce(ExchangeHost& host, std::shared_ptr<RoundSums> sums) {
  return std::make_unique<HalvingAllreduce>(host, std::move(sums));
}

}  // namespace gossamer::node
