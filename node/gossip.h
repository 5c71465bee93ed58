#pragma once
// What all gossip methods share: when a parcel may mix. A parcel mixes when its own step is done and every
// expected neighbour has seen + staleness ≥ round: 0 is synchronous, s bounded staleness, unbounded never
// waits.
#include <deque>
#include <vector>

#include "by_peer.h"
#include "exchange.h"

namespace gossamer::node {

class Gossip : public Exchange {
 public:
  /// vectors: that a neighbour sends of each parcel in a round, told apart by their tags 0 … vectors − 1.
  explicit Gossip(ExchangeHost& host, std::uint32_t vectors = 1);
  void begin_round(Round round) override { round_ = round; }
  void on_parcel_ready(Round round, ParcelId parcel) final;
  /// Sends what was encoded to every neighbour that the round sends to.
  void on_encoded(const Encoded& e) override;
  void on_message(PeerId from, Message message) final;
  bool waits_for(PeerId from) const final;

 protected:
  /// A neighbour's messages on one vector of one parcel.
  struct Inbox {
    std::deque<Message> waiting;  ///< rounds ascending
    std::optional<Round> seen;    ///< newest round that came
  };
  /// After the own step and before waiting for others (asynchronous methods encode per link here).
  virtual void after_step(Round, ParcelId) {}
  /// Submits the ops that mix the parcel; everything that the round needs has come.
  virtual void mix(Round round, ParcelId parcel) = 0;

  Inbox& inbox(PeerId from, ParcelId parcel, std::uint32_t vector = 0) {
    return inboxes_[from][parcel * vectors_ + vector];
  }
  const topology::MixingMatrix& weights(Round round) const { return host_.plan().schedule.at(round); }
  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  bool synchronous() const { return host_.plan().exchange.staleness == 0; }
  /// Takes the front message of the inbox, acknowledging it as used.
  Message take(PeerId from, Inbox& box);
  /// Takes what the neighbours sent of a vector: to += Σ_j W_ij (v_j − v_i), v_i in slot v. Differences are
  /// formed first, in a slot of their own: they are exact where peers are near each other.
  void add_differences(Round round, ParcelId parcel, Slot v, Slot to, Slot difference,
                       std::uint32_t vector = 0);
  ExchangeHost& host_;

 private:
  void try_mix(ParcelId parcel);
  bool heard_enough(PeerId from, ParcelId parcel) const;
  /// Newest round of which every vector has come.
  std::optional<Round> seen(PeerId from, ParcelId parcel) const;
  std::uint32_t vectors_;
  Round round_ = 0;
  std::vector<bool> stepped_;           ///< per parcel: own step of round_ is done, not mixed yet
  ByPeer<std::vector<Inbox>> inboxes_;  ///< [peer][parcel · vectors + vector]
};

}  // namespace gossamer::node
