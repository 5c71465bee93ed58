// Full reduce of gradients, weighted by samples, before the optimiser: every peer then takes the same step,
// so that all peers' parameters stay identical to the bit. A parcel is cut into P slices; slice s belongs to
// peer s. Dense parcels go around the ring, or by halving and doubling (halving.cpp) where that is
// the cheaper for their layer (allreduce_choice.h).
//
// Dense: the ring of Patarasu & Yuan (2009), peers in index order, any P. Sums stand in no slot, but in the
// payloads that tell them: each passes over g once on its way, and the step is taken by those of all slices.
//   reduce-scatter   step k = 0 … P−2: send slice (i − k) mod P to the next peer, add the own slice (i − k −
//   1) mod P to what came.
//                    Peer i then holds the whole sum of slice (i + 1) mod P.
//   all-gather       step k = P−1 … 2P−3: slices that are complete travel once around; bytes are passed on as
//   they came. `step_` counts the messages used of a parcel; tag = step; each message waits until the
//   parcel's own gradient is there.
//
// With a codec (needs a link between every two peers): each peer sends its encoded slice s to the owner s
// (tag = s); the owner adds the slices in peer order, its own one as it is, encodes the average once and
// sends it to all (tag = P + s); all, the owner included, apply the decoded bytes. Error feedback on both
// encodes where residuals stay bounded (contractive codecs and threshold, as in Strom 2015); an unbiased
// codec that is not goes without (QSGD), so does terngrad, whose clipping is its one bias (Wen et al. 2017),
// and sign_vote, where the owner's signs of the sum of signs, its own as coded too, are the majority vote
// (Bernstein et al. 2018).
// With one shared sum nothing is left of who rounded what, hence the identical bits.
#include "aggregation.h"
#include "full_reduce.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class RingAllreduce final : public FullReduce {
 public:
  RingAllreduce(ExchangeHost& host, std::shared_ptr<RoundSums> sums)
      : FullReduce(host, 0, std::move(sums), kReduced),
        step_(host.plan().parcels.size(), 0),
        sums_of_(step_.size()) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    if (peers_ > 1) return {pass_on(round, parcel, self_, {}, 0)};
    return {op::Combine{slice(parcel, self_), kReduced, 0, {{share(self_), kGradient}}}};
  }

  void on_encoded(const Encoded& e) override {
    send({e.round, e.parcel, e.tag, e.entries, e.payload});
    if (e.tag == last_reduce() + 1) whole(e.round, e.parcel, received_slice(last_reduce()), e.payload);
  }

 private:
  PeerId previous() const { return (self_ + peers_ - 1) % peers_; }
  std::uint32_t last_reduce() const { return peers_ - 2; }
  std::uint32_t last_step() const { return 2 * peers_ - 3; }
  /// The slice that this peer receives at a step; it is the one it sends at the next.
  PeerId received_slice(std::uint32_t step) const { return (self_ + 2 * peers_ - (step + 1)) % peers_; }

  void send(Message message) { host_.send((self_ + 1) % peers_, std::move(message)); }

  /// Adds this peer's own to what came of a slice, if anything.
  op::PassOn pass_on(Round round, ParcelId parcel, PeerId of, const Payload& came, std::uint32_t tag) const {
    return {.range = slice(parcel, of),
            .src = kGradient,
            .factor = share(self_),
            .dst = kReduced,
            .payload = came,
            .round = round,
            .parcel = parcel,
            .tag = tag};
  }

  /// A slice's sum is there.
  void whole(Round round, ParcelId parcel, PeerId of, const Payload& sum) {
    sums_of_[parcel].emplace_back(slice(parcel, of), sum);
    if (sums_of_[parcel].size() == peers_) finish(round, parcel, std::exchange(sums_of_[parcel], {}));
  }

  std::optional<std::size_t> entries_of(PeerId from, ParcelId parcel, std::uint32_t tag) const override {
    if (from != previous() || tag > last_step()) return std::nullopt;
    return slice(parcel, received_slice(tag)).size;
  }

  void start(Round, ParcelId parcel) override { step_[parcel] = 0; }

  void progress(Round round, ParcelId parcel) override {
    while (auto message = take(round, parcel, step_[parcel], previous())) {
      const std::uint32_t step = step_[parcel]++;
      const PeerId of = received_slice(step);
      if (step <= last_reduce()) {
        host_.submit(pass_on(round, parcel, of, message->payload, step + 1));
        continue;
      }
      const Payload sum = message->payload;
      message->tag = step + 1;
      if (step < last_step()) send(std::move(*message));
      whole(round, parcel, of, sum);
    }
  }

  std::vector<std::uint32_t> step_;  ///< per parcel: messages used in this round
  std::vector<op::Parts> sums_of_;   ///< per parcel: of slices, that are whole
};

constexpr std::size_t kCodedSlots = 1;

class CodedAllreduce final : public FullReduce {
 public:
  explicit CodedAllreduce(ExchangeHost& host)
      : FullReduce(host, kCodedSlots), state_(host.plan().parcels.size()) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    std::vector<Op> ops = prepared(round, parcel);
    for (PeerId owner = 0; owner < peers_; ++owner) {
      op::Encode part = encode(round, parcel, owner, kGradient, 0, owner);
      part.momentum = momentum(parcel);
      part.exact = owner == self_ && !votes_;
      if (owner != self_ || momentum(parcel) > 0 || votes_) ops.emplace_back(part);
    }
    return ops;
  }

  void on_encoded(const Encoded& e) override {
    if (e.tag == self_) {
      state_[e.parcel].own = e.payload;
      return;
    }
    if (e.tag < peers_) return host_.send(e.tag, {e.round, e.parcel, e.tag, e.entries, e.payload});
    for (PeerId to = 0; to < peers_; ++to)
      if (to != self_) host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
    const Range own = slice(e.parcel, self_);
    if (host_.plan().planted.is(Bug::owner_keeps_its_average))
      host_.submit(op::Combine{own, kGradient, 0, {{1.0f, kSum}}});
    else
      overwrite(own, kGradient, e.payload);
    applied(e.round, e.parcel);
  }

 private:
  static constexpr Slot kSum = 2;  ///< of the slices that this peer owns
  struct State {
    bool averaged = false;
    PeerId added = 0;
    PeerId applied = 0;  ///< averages that stand in g
    Payload own{};  ///< this peer's part of its own slice: under momentum correction whole, of votes its vote
  };

  op::Encode encode(Round round, ParcelId parcel, PeerId owner, Slot src, int feedback,
                    std::uint32_t tag) const {
    return op::Encode{.range = slice(parcel, owner),
                      .src = src,
                      .minus = {},
                      .apply_to = {},
                      .feedback = host_.plan().codec.feedback() ? feedback : -1,
                      .exact = peers_ == 1,
                      .round = round,
                      .parcel = parcel,
                      .tag = tag};
  }

  std::optional<std::size_t> entries_of(PeerId from, ParcelId parcel, std::uint32_t tag) const override {
    if (tag == self_) return slice(parcel, self_).size;
    return tag == peers_ + from ? std::optional(slice(parcel, from).size) : std::nullopt;
  }

  void start(Round, ParcelId parcel) override {
    if (host_.plan().planted.is(Bug::arrival_order))
      host_.submit(op::Combine{slice(parcel, self_), kSum, 0, {{share(self_), kGradient}}});
  }

  void progress(Round round, ParcelId parcel) override {
    if (host_.plan().planted.is(Bug::arrival_order)) add_as_they_come(round, parcel);
    if (!state_[parcel].averaged && all_slices_came(round, parcel)) average(round, parcel);
    for (PeerId owner = 0; owner < peers_; ++owner) {
      if (owner == self_) continue;
      if (auto message = take(round, parcel, peers_ + owner, owner)) {
        overwrite(slice(parcel, owner), kGradient, message->payload);
        if (applied(round, parcel)) return;
      }
    }
  }

  void add_as_they_come(Round round, ParcelId parcel) {
    for (PeerId j = 0; j < peers_; ++j)
      if (auto message = take(round, parcel, self_, j)) {
        host_.submit(op::DecodeAdd{slice(parcel, self_), kSum, share(j), message->payload});
        if (++state_[parcel].added + 1 < peers_) continue;
        host_.submit(encode(round, parcel, self_, kSum, 1, peers_ + self_));
        state_[parcel].averaged = true;
      }
  }

  bool all_slices_came(Round round, ParcelId parcel) const {
    for (PeerId j = 0; j < peers_; ++j)
      if (j != self_ && !has(round, parcel, self_, j)) return false;
    return true;
  }

  void average(Round round, ParcelId parcel) {
    const Range r = slice(parcel, self_);
    host_.submit(op::Combine{r, kSum, 0, {}});
    for (PeerId j = 0; j < peers_; ++j) {
      if (j == self_ && state_[parcel].own)
        host_.submit(op::DecodeAdd{r, kSum, share(j), state_[parcel].own});
      else if (j == self_)
        host_.submit(op::Combine{r, kSum, 1, {{share(j), kGradient}}});
      else
        host_.submit(op::DecodeAdd{r, kSum, share(j), take(round, parcel, self_, j)->payload});
    }
    host_.submit(encode(round, parcel, self_, kSum, 1, peers_ + self_));
    state_[parcel].averaged = true;
  }

  bool applied(Round round, ParcelId parcel) {
    if (++state_[parcel].applied < peers_) return false;
    state_[parcel] = {};
    finish(round, parcel);
    return true;
  }

  const bool votes_ = host_.plan().codec.votes;
  std::vector<State> state_;
};

/// Each parcel by the way that suits its layer.
class DenseAllreduce final : public Exchange {
 public:
  explicit DenseAllreduce(ExchangeHost& host)
      : DenseAllreduce(host, std::make_shared<RoundSums>(host.plan().parcels.size())) {}
  DenseAllreduce(ExchangeHost& host, const std::shared_ptr<RoundSums>& sums)
      : ring_(host, sums),
        halving_(make_halving_allreduce(host, sums)),
        halves_(halving_parcels(host.plan().allreduce, host.plan().parcels)) {}
  void begin_round(Gradient& gradient) override {
    ring_.begin_round(gradient);
    halving_->begin_round(gradient);
  }
  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    return of(parcel).on_ready(round, parcel);
  }
  void on_parcel_ready(Round round, ParcelId parcel) override { of(parcel).on_parcel_ready(round, parcel); }
  void on_encoded(const Encoded& e) override { of(e.parcel).on_encoded(e); }
  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const override {
    return halves_[parcel] ? halving_->judge(from, round, parcel, tag)
                           : ring_.judge(from, round, parcel, tag);
  }
  std::vector<Awaited> awaits() const override {
    std::vector<Awaited> awaited = ring_.awaits();
    const std::vector<Awaited> others = halving_->awaits();
    awaited.insert(awaited.end(), others.begin(), others.end());
    return awaited;
  }
  void archive(Archive archive) override {
    ring_.archive(archive.part("ring"));
    halving_->archive(archive.part("halving"));
  }
  void on_message(PeerId from, Message message) override {
    Exchange& way = of(message.parcel);
    way.on_message(from, std::move(message));
  }

 private:
  Exchange& of(ParcelId parcel) { return halves_[parcel] ? *halving_ : ring_; }

  RingAllreduce ring_;
  std::unique_ptr<Exchange> halving_;
  const std::vector<bool> halves_;  ///< per parcel
};

std::unique_ptr<Exchange> make_allreduce(ExchangeHost& host) {
  if (host.plan().codec.exact) return std::make_unique<DenseAllreduce>(host);
  return std::make_unique<CodedAllreduce>(host);
}

}  // namespace

constinit const Method kAllreduceMethod{
    .row = {"allreduce",
            "average gradients over all peers before the step; graph full (any codec), ring or hypercube "
            "(dense)"},
    .needs = {.graph = Needs::Graph::ring_or_complete,
              .may_vary = false,
              .may_be_stale = false,
              .codes_gradients = true,
              .sparse_feedback = true,
              .reads = "algorithm aggregate dense_below dense_rounds",
              .why_synchronous = kOneSum},
    .make = make_allreduce,
    .buffers =
        [](const Plan& plan) {
          if (!plan.codec.exact) return FullReduce::buffers(plan, kCodedSlots);
          return Buffers{.keeps_gradient = true, .scratch = 1};  // FullReduce::kReduced
        },
    .own_steps = OwnSteps::mean,
    .pattern = Pattern{.messages = Pattern::Messages::reduce, .mixing = Pattern::Mixing::full},
    .invariants = {.all_alike = true}};

}  // namespace gossamer::node
