#pragma once
// Outer is what the methods share that exchange every H rounds and keep outer parameters φ beside the peer's
// own x: which parcels are exchanged after which round, messages that wait until their result is due, and x's
// return to φ.
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "exchange.h"

namespace gossamer::node {

/// Parcels are exchanged in F groups ("fragments") of about equal size, each every H rounds and all at their
/// own offsets within those, so that traffic is even. F = 1 is everything at once.
class Fragments {
 public:
  /// count ≤ steps.
  Fragments(std::size_t steps, std::size_t count, const SharedList<Parcel>& parcels);
  std::size_t of(ParcelId parcel) const { return of_parcel_[parcel]; }
  /// Where the parcel is exchanged after the step of this round: how many times it was before.
  std::optional<Round> exchange(Round round, ParcelId parcel) const;

 private:
  std::size_t steps_, count_;
  std::vector<std::size_t> of_parcel_;
};

/// Every two peers are linked and all have the same row of weights, so that one exchange gives all the same
/// mean.
bool one_mean(const topology::Schedule& schedule);

/// By matrix of the schedule, the largest share s ≤ 1 of W − I with which every peer keeps half of its own
/// vector: W̃ = I + s (W − I), diagonal ≥ ½ (see diloco.cpp).
std::vector<double> outer_shares(const topology::Schedule& schedule);

class Outer : public Exchange {
  static constexpr std::size_t kOwnSlots = 1;

 public:
  explicit Outer(ExchangeHost& host);
  /// φ, the method's own, x when the outer round began.
  static Buffers buffers(const Plan& plan) {
    return {.slots = 1 + kOwnSlots + (plan.exchange.outer_delay > 0 ? 1u : 0u)};
  }
  void begin_round(Gradient& gradient) final;
  std::vector<Op> on_ready(Round round, ParcelId parcel) final;
  void on_parcel_ready(Round round, ParcelId parcel) final;
  void on_encoded(const Encoded& e) final;
  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const final;
  void on_message(PeerId from, Message message) final;
  std::vector<Awaited> awaits() const final;
  void archive(Archive archive) final;

 protected:
  static constexpr Slot kOuter = 2;  ///< φ
  static constexpr Slot kOwn = 3;    ///< the method's own; starts as a copy of x

  /// One exchange of one parcel.
  struct OuterRound {
    Round number;  ///< of this parcel's exchanges, from 0; the schedule goes on by it
    Round round;   ///< after whose step it began
    ParcelId parcel;
  };
  /// After the peer's own step: what is sent to all that the outer round's matrix names. g may be
  /// overwritten.
  virtual std::vector<Op> offer(const OuterRound& m) = 0;
  /// Everything has come: φ's next value. g may be overwritten.
  virtual void absorb(const OuterRound& m) = 0;

  const topology::MixingMatrix& weights(const OuterRound& m) const {
    return host_.plan().schedule.at(m.number);
  }
  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  /// Of the parcel's outer step; a state goes to the mean of what it has become.
  float outer_rate(ParcelId parcel) const {
    return host_.plan().parcels[parcel].state ? 1.0f : static_cast<float>(host_.plan().outer_rate);
  }
  float outer_momentum(ParcelId parcel) const {
    return host_.plan().parcels[parcel].state ? 0.0f : static_cast<float>(host_.plan().outer_momentum);
  }
  /// exact: dense whatever the codec is. feedback: as in op::Encode.
  Op encode(const OuterRound& m, Slot src, std::optional<Slot> minus, bool exact, int feedback = -1) const;
  /// The neighbour's message, acknowledged as used.
  Payload take(const OuterRound& m, PeerId from);
  /// slot += Σ_j w_j · what peer j sent, over all peers in their order, this one included: the same bits on
  /// every peer. Where one_mean.
  void add_mean(const OuterRound& m, Slot slot);
  /// slot += scale · Σ_j W_ij · what neighbour j sent, in their order.
  void add_neighbours(const OuterRound& m, Slot slot, float scale = 1);

  ExchangeHost& host_;
  std::vector<Payload> own_;  ///< per parcel: what this peer sent last

 private:
  using Key = std::tuple<Round, ParcelId, PeerId>;
  std::optional<OuterRound> begins(Round round, ParcelId parcel) const;
  /// The outer round whose result is due in the present round.
  std::optional<OuterRound> due(ParcelId parcel) const;
  bool complete(const OuterRound& m) const;
  void advance(ParcelId parcel);
  /// x when the outer round began.
  Slot at_outer_round() const { return static_cast<Slot>(kOwn + kOwnSlots); }

  Round delay_, round_ = 0;
  Fragments fragments_;
  std::vector<bool> stepped_;  ///< per parcel: the round's own step is done, the parcel not final yet
  std::map<Key, Message> waiting_;
};

}  // namespace gossamer::node
