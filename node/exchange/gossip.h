#pragma once
// Gossip is what all gossip methods share: it tells when a parcel may mix. A parcel mixes when its own step
// is done and every expected neighbour has seen + staleness ≥ round: 0 is synchronous, s bounded staleness,
// unbounded never waits.
//
// Where nobody waits, a fast peer would mix with a slow one more often than that one with it, and the step of
// a slow peer weigh as much more as it takes fewer. So W_ij is lowered to W_ij·min(1, n_j/n_i), with n_i how
// often i mixes with j: as much goes one way as the other, n_i W_ij·min(1, n_j/n_i) = W_ij·min(n_i, n_j),
// which keeps the mean of the peers' models and lets every step count alike (the chain of Metropolis and
// Hastings whose stationary distribution is n). Peers then go for the minimum of Σ n_i f_i, as in AD-PSGD. On
// directed graphs no weight of one edge can do that; there every peer counts alike, however few steps it
// takes.
#include <deque>
#include <vector>

#include "by_peer.h"
#include "exchange.h"

namespace gossamer::node {

class Gossip : public Exchange {
 public:
  /// vectors: that a neighbour sends of each parcel in a round, told apart by their tags 0 … vectors − 1.
  explicit Gossip(ExchangeHost& host, std::uint32_t vectors = 1);
  void begin_round(Gradient& gradient) override;
  void on_parcel_ready(Round round, ParcelId parcel) final;
  /// Sends what was encoded to every neighbour that the round sends to.
  void on_encoded(const Encoded& e) override;
  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const final;
  void on_message(PeerId from, Message message) final;
  std::vector<Awaited> awaits() const final;
  void archive(Archive archive) override;

 protected:
  /// A neighbour's messages on one vector of one parcel.
  struct Inbox {
    std::deque<Message> waiting;  ///< rounds ascending
    std::optional<Round> seen;    ///< newest round that came
  };
  /// Of methods whose own step is own_step: what makes a message of x as it stands.
  virtual std::vector<Op> offer(Round, ParcelId) const { return {}; }
  /// Whether, overlapped, a parcel's next offer may follow its mixing at once, while others of its parcels
  /// still wait for this round's: a slow link then has something to carry at any time.
  virtual bool offers_ahead() const { return false; }
  /// After the own step and before waiting for others (asynchronous methods encode per link here).
  virtual void after_step(Round, ParcelId) {}
  /// Submits the ops that mix the parcel; everything that the round needs has come.
  virtual void mix(Round round, ParcelId parcel) = 0;
  /// And then those of its next offer.
  virtual void mix_and_offer(Round round, ParcelId parcel, std::vector<Op> offer) {
    mix(round, parcel);
    for (Op& o : offer) host_.submit(std::move(o));
  }

  /// Rounds in which peers that former graphs linked (Plan::former) send.
  static constexpr Round kSettlingRounds = 4;

  Inbox& inbox(PeerId from, ParcelId parcel, std::uint32_t vector = 0) {
    return inboxes_[from][parcel * vectors_ + vector];
  }
  /// Once the gradient stands: x ← x − u, and what is offered then. Overlapped, u alone: the offer is made
  /// before, and mixing takes the step (with_step).
  std::vector<Op> own_step(Round round, ParcelId parcel) const;
  /// The last of the commands that mix, with what is left of the own step.
  op::Combine with_step(Round round, op::Combine mixing) const {
    if (overlaps(round)) mixing.terms.emplace_back(-1.0f, kGradient);
    return mixing;
  }
  /// x is offered before the round's gradient is computed at it, and mixed after that (exchange.overlap).
  bool overlaps(Round round) const { return host_.plan().exchange.overlap && !idle(round); }
  /// Of methods with local steps: a round after which nobody sends.
  bool idle(Round round) const { return (round + 1) % local_steps_ != 0; }
  const topology::MixingMatrix& weights(Round round) const { return host_.plan().schedule.at(round); }
  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  bool synchronous() const { return host_.plan().exchange.staleness == 0; }
  /// Where nobody waits: the part of its weight with which a neighbour is mixed, by how often this peer has
  /// mixed with it and it with this peer; else 1.
  float fair_part(Round mine, Round theirs) const;
  /// Takes the front message of the inbox, acknowledging it as used.
  Message take(PeerId from, Inbox& box);
  /// Takes what the neighbours sent of a vector: to += Σ_j W_ij (v_j − v_i), v_i in slot v. Differences are
  /// formed first, in a slot of their own: they are exact where peers are near each other.
  void add_differences(Round round, ParcelId parcel, Slot v, Slot to, Slot difference,
                       std::uint32_t vector = 0);
  ExchangeHost& host_;

 private:
  void try_mix(ParcelId parcel);
  bool goes_ahead() const;
  bool within_staleness(PeerId from, ParcelId parcel) const { return !missing(from, parcel); }
  /// The round of the neighbour's that the present one waits for.
  std::optional<Round> missing(PeerId from, ParcelId parcel) const;
  bool sends(PeerId from, Round round) const;
  /// It sends what it owes: once the first rounds are over, nothing.
  bool settles(PeerId from, Round round) const;
  /// Newest round of which every vector has come.
  std::optional<Round> seen(PeerId from, ParcelId parcel) const;
  std::uint32_t vectors_;
  Round local_steps_;
  Round most_ahead_;  ///< rounds that a neighbour may be ahead of this peer, where rounds are waited for
  Round round_ = 0;
  std::vector<bool> stepped_;           ///< per parcel: own step of round_ is done, not mixed yet
  std::vector<bool> ahead_;             ///< per parcel: what round_ + 1 offers has been offered
  ByPeer<std::vector<Inbox>> inboxes_;  ///< [peer][parcel · vectors + vector]
};

}  // namespace gossamer::node
