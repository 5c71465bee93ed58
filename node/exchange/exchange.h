#pragma once
// An Exchange is the method by which a peer exchanges what it learned: one file per method, one table.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allreduce_choice.h"
#include "data_plane.h"
#include "gossamer/compress/codec.h"
#include "gossamer/compress/rows.h"
#include "gossamer/node/exchange_settings.h"
#include "gossamer/optim/model.h"
#include "gossamer/topology/schedule.h"
#include "message.h"
#include "parcel.h"
#include "planted.h"
#include "routes.h"
#include "shared_list.h"
#include "verdict.h"

namespace gossamer::node {

/// How much of the model the aggregation rule must see at once; none: a weighted sum, no rule.
enum class RuleScope { none, parcel, model };

/// How the rows of peers' tables are exchanged (row_gossip.h).
struct RowPlan {
  compress::RowsSpec spec;
  std::shared_ptr<const Routes> routes;
  /// Bytes of others' messages that the data plane is given from one of its gradients to the next, where
  /// nobody waits; more of them wait to be used.
  std::size_t most_given = std::size_t{64} << 20;
};

/// What all methods know of the run; fixed before the first round. Read by every peer alike; copies share
/// what is large.
struct Plan {
  ExchangeSettings exchange;
  double gamma = 1;                           ///< consensus step, resolved
  double usual_gamma = 1, stable_gamma = 1;   ///< by default; and up to which it was found stable
  double outer_rate = 1, outer_momentum = 0;  ///< resolved
  compress::Traits codec;
  /// Decay of the velocity that full reduces code in the gradient's place (full_reduce.h); 0: the gradient.
  double velocity = 0;
  /// The optimiser changes nothing where the gradient is 0, and the codec's payloads tell entries by index.
  bool steps_sparsely = false;
  topology::Schedule schedule;  ///< weights as aggregated (mixing matrix, or renormalised by peer)
  SharedList<double> share;     ///< of each peer in a mean of gradients: b_i / Σ b, or by throughput
  AllreduceCost allreduce;      ///< of a dense all-reduce, by its ways
  SharedList<Parcel> parcels;   ///< of this peer's model
  PeerId self = 0;
  RuleScope rule = RuleScope::none;
  std::uint64_t seed = 0;  ///< of everything random
  [[no_unique_address]] Planted planted{};
  SharedList<SharedList<Parcel>> parcels_by_peer{};  ///< by peer; empty: all as parcels
  /// The mixing matrix is symmetric, before peers were weighed: what a peer takes of another, that one takes
  /// of it, by their weights.
  bool reversible = false;
  double dense_gamma = 1;  ///< consensus step where what is sent goes dense, and nothing is left out
  /// Null: there are no tables, or each peer keeps its own. Else their rows go as one parcel more.
  std::shared_ptr<const RowPlan> rows{};

  ParcelId row_parcel() const { return static_cast<ParcelId>(parcels.size()); }
  bool is_rows(ParcelId parcel) const { return rows && parcel == row_parcel(); }
  /// Of every neighbour the first message is waited for, however stale later ones may be: what is known of it
  /// before says nothing. (Not where nobody waits.)
  bool first_heard = false;
  /// Of peers that the graph does not link in that direction and an earlier view's did: the first may owe the
  /// second what it had sent (data/own.h); ascending.
  std::vector<std::pair<PeerId, PeerId>> former{};
  /// Of those: whom the peer owes, or who owe it.
  std::vector<PeerId> owed_by(PeerId peer) const;
  std::vector<PeerId> owing(PeerId peer) const;

  /// The consensus step of a parcel in a round. Where peers do not wait for each other's rounds, one in which
  /// this peer sends dense is none in which all do.
  double gamma_in(Round round, ParcelId parcel) const {
    const bool dense = parcels[parcel].dense || (exchange.staleness == 0u && round < exchange.dense_rounds);
    return dense ? dense_gamma : gamma;
  }

  /// What a round waits for: the parcels, and the rows.
  std::size_t parts() const { return parcels.size() + (rows ? 1 : 0); }
  /// Those that a neighbour sends.
  const SharedList<Parcel>& parcels_of(PeerId peer) const {
    return parcels_by_peer.empty() ? parcels : parcels_by_peer[peer];
  }
};

/// What a method may ask of the worker that runs it.
class ExchangeHost {
 public:
  virtual ~ExchangeHost() = default;
  virtual const Plan& plan() const = 0;
  virtual void submit(Op op) = 0;
  virtual void send(PeerId to, Message message) = 0;
  /// How far the run is when this round begins, in rounds; the rates' schedules follow it.
  virtual double place(Round round) const { return static_cast<double>(round); }
  /// The optimiser's step of this round.
  op::Update update(Range range, Round round) const { return {range, round, place(round)}; }
  /// x ← x − that.
  op::Step step(Range range, Round round) const { return {update(range, round)}; }
  /// The message has been used; its sender may send more.
  virtual void consumed(PeerId from, const Message& message) = 0;
  /// Fewer than a few of the parcel's messages to this neighbour wait to be used there.
  virtual bool can_send(PeerId to, ParcelId parcel) const = 0;
  /// The parcel's parameters are final for this round, or up to the later one given: the run goes on with
  /// the round after the least that the parcels are final for.
  virtual void mixed(ParcelId parcel, std::optional<Round> through = {}) = 0;
  virtual void saw_staleness(Round rounds) = 0;
  /// Whether what is told in this round, the next one, may be told already. Then nothing comes to rest
  /// between the two: no checkpoint, nor the end.
  virtual bool goes_ahead(Round) { return false; }
  /// A message was not used, because it could not be.
  virtual void count_left_out() {}
  /// A message was not made, because can_send said no.
  virtual void count_held_back() {}
  /// A round took too long, and ended without some neighbour (Exchange::on_overdue).
  virtual void count_closed_without() {}
  /// The view is over, and this peer's step of the round is the last in it.
  virtual bool ends_alone() const { return false; }
  /// The last round has ended.
  virtual bool trained() const { return false; }
  /// Nothing more comes from the neighbour: it had done its rounds and has ended, or it is muted.
  virtual bool gone(PeerId) const { return false; }
};

/// A message that a round waits for.
struct Awaited {
  PeerId peer;
  Round round;
  ParcelId parcel;
};

/// One method on one peer: control only. Every round: begin_round, then for each parcel its on_ready ops run
/// in the data plane, on_parcel_ready, and in the end the method calls host.mixed(parcel).
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// gradient: the round's, which gets its on_ready ops afterwards; soft labels may be put in.
  virtual void begin_round(Gradient&) {}
  virtual std::vector<Op> on_ready(Round round, ParcelId parcel) = 0;
  virtual void on_parcel_ready(Round round, ParcelId parcel) = 0;
  virtual void on_encoded(const Encoded& encoded) = 0;
  /// What a message of this round, parcel and tag in the neighbour's name is as things stand; asked when its
  /// first bytes come and again when it is to be delivered. The parcel is one of that neighbour's.
  virtual Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const = 0;
  /// Whether a message is one of the method's own code; none: it is written by the job's codec.
  virtual std::optional<bool> decodes(const Message&) const { return std::nullopt; }
  /// One that was judged to be due now, and decodes.
  virtual void on_message(PeerId from, Message message) = 0;
  /// Whoever has not been heard in this round takes too long: where rounds close early it is not waited for.
  virtual void on_overdue() {}
  /// ends_alone is so, and that step has been taken; the round is not waited for.
  virtual void end_alone() {}
  /// The messages without which the round, or after the last one the method, does not end; of parcels whose
  /// own gradient is there, or is told before it is (Gradient::steps_in_mix).
  virtual std::vector<Awaited> awaits() const { return {}; }
  /// All that it keeps between rounds, messages that came early included; while nothing is awaited, and of
  /// an exchange that has begun no round where it restores.
  virtual void archive(Archive archive) = 0;
};

std::span<const optim::NamedHelp> method_table();
std::unique_ptr<Exchange> make_exchange(ExchangeHost& host);
/// What the plan's method keeps in the data plane.
Buffers buffers_of(const Plan& plan);
/// After its last round a peer goes on taking messages while others still train.
bool serves_after_end(const Plan& plan);

/// Rounds may close before all neighbours have been heard.
bool closes_early(const ExchangeSettings& e);
/// Whether a method goes by the order in which messages were sent: it waits for no particular round, or not
/// for all of one.
bool goes_by_order(const ExchangeSettings& e);

class RoundSums;
/// A dense all-reduce by recursive halving and doubling. sums: as of FullReduce.
std::unique_ptr<Exchange> make_halving_allreduce(ExchangeHost& host, std::shared_ptr<RoundSums> sums);
// dpsgd, broadcast and topk_allgather where rounds close early.
std::unique_ptr<Exchange> make_partial_dpsgd(ExchangeHost& host);
std::unique_ptr<Exchange> make_partial_broadcast(ExchangeHost& host, bool feedback);

}  // namespace gossamer::node
