#pragma once
// RowGossip exchanges the rows of tables beside a method that exchanges parcels: in every round a peer tells
// all the others how the rows that it touched should change (compress/rows.h), and takes a step of its
// table's optimiser with the sum of what all told. Messages go along Routes and are handed on as they came,
// so that over any graph every push is applied once by every peer.
//
// Staleness 0: a round ends when what all peers told of it has come, and where all is told exactly (codec
// dense, density 1) all tables hold the same bits; s: of the round s before, and what comes else is applied
// at once; unbounded: nobody waits. Then a peer tells nothing in a round in which a link on the way is full:
// what it would have told stays with the unsent.
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "exchange.h"

namespace gossamer::node {

class RowGossip final : public Exchange {
 public:
  /// parcels: the method that exchanges the parameters. The host's plan has rows.
  RowGossip(ExchangeHost& host, std::unique_ptr<Exchange> parcels);

  void begin_round(Gradient& gradient) override;
  std::vector<Op> on_ready(Round round, ParcelId parcel) override;
  void on_parcel_ready(Round round, ParcelId parcel) override;
  void on_encoded(const Encoded& encoded) override;
  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const override;
  std::optional<bool> decodes(const Message& message) const override;
  void on_message(PeerId from, Message message) override;
  std::vector<Awaited> awaits() const override;
  void archive(Archive archive) override;

 private:
  /// What one peer told, as it came.
  struct Origin {
    PeerId from = 0;             ///< who hands it on to this peer
    std::vector<PeerId> onward;  ///< to whom this peer does
    std::optional<Round> seen;   ///< newest round that came
    /// The last ones that came, mostly none; one of each for every peer of the run. What is in neither has
    /// been used.
    std::list<Message> waiting, to_hand_on;
  };
  bool is_rows(ParcelId parcel) const { return host_.plan().is_rows(parcel); }
  const std::optional<std::uint64_t>& staleness() const { return host_.plan().exchange.staleness; }
  bool synchronous() const { return staleness() == std::optional<std::uint64_t>(0); }
  bool can_send(const Origin& origin) const;
  /// The round of that origin that the present one waits for, and has not come.
  std::optional<Round> missing(const Origin& origin) const;
  void try_mix();
  void apply_all();
  bool may_give() const { return given_ < host_.plan().rows->most_given || host_.trained(); }
  void hand_on(Origin& origin);

  ExchangeHost& host_;
  std::unique_ptr<Exchange> parcels_;
  std::vector<Origin> origins_;  ///< by peer
  Round round_ = 0;
  std::size_t given_ = 0;  ///< bytes of others' messages that the data plane got since its last gradient
  bool stepped_ = false;   ///< the round's own changes are known, and not applied yet
};

}  // namespace gossamer::node
