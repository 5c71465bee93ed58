#pragma once
// FullReduce is shared by the methods that average gradients over all peers: messages wait until the parcel's
// own gradient is there, then the step is taken by all alike.
//
// Under an optimiser with momentum m a coarse code (one bit) is given the velocity in the gradient's place,
// as in 1-bit Adam (Tang et al. 2021, algorithm 1, lines 6 to 13). Where D is what all decoded last, peer i
// codes
//
//   u_i = g_i + m·D        with error feedback; all decode the same D' = mean of the u_i, and step by
//   g' = D' − m·D          so that the optimiser, which knows nothing of this, makes v = m·v + g' = D' of it.
//
// Nothing is lost: over the rounds Σ g' is Σ mean(g_i) but for what residuals hold. What it cures: with g_i
// coded by itself a residual of entries that the shared scale is too small for grows for many rounds, goes on
// being sent when the gradient has long turned, and momentum multiplies that by 1/(1 − m). The velocity has
// its noise averaged out, and repeats: of what is coded in a round the next one codes m times the same again,
// so that only (1 − m) of a residual must be fed back.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "exchange.h"
#include "message_state.h"

namespace gossamer::node {

/// Counts the parcels of a round whose sums are whole, and keeps what tells them. The step is taken when all
/// are: whenever a peer is asked for its parameters, they are those before a round or after it, and never in
/// between, so that peers of which some had the last sum and some had not can go on from one or the other.
class RoundSums {
 public:
  explicit RoundSums(std::size_t parcels) : parts_(parcels) {}
  /// Told by these; empty: it stands in its slot. True where it was the last.
  bool whole(ParcelId parcel, op::Parts parts) {
    parts_[parcel] = std::move(parts);
    if (++whole_ < parts_.size()) return false;
    whole_ = 0;
    return true;
  }
  op::Parts take(ParcelId parcel) { return std::exchange(parts_[parcel], {}); }

 private:
  std::vector<op::Parts> parts_;
  std::size_t whole_ = 0;
};

class FullReduce : public Exchange {
 public:
  /// Where dense reduces sum, beside g: who loses a peer in the midst of it still has its own gradient.
  static constexpr Slot kReduced = 2;

  /// The first `slots` buffers beside x and g are the method's own. sums: shared by those that reduce a
  /// round's parcels between them; none: this one reduces all. sum: the slot in which they stand in the end.
  explicit FullReduce(ExchangeHost& host, std::size_t slots = 0, std::shared_ptr<RoundSums> sums = nullptr,
                      Slot sum = kGradient)
      : host_(host),
        peers_(static_cast<PeerId>(host.plan().schedule.peers())),
        self_(host.plan().self),
        sums_(sums ? std::move(sums) : std::make_shared<RoundSums>(host.plan().parcels.size())),
        sum_(sum),
        velocity_(2 + static_cast<Slot>(slots)),
        ready_(host.plan().parcels.size(), false),
        unstepped_(ready_.size()) {}

  /// slots: as given to the constructor.
  static Buffers buffers(const Plan& plan, std::size_t slots) {
    return {.slots = slots + (plan.velocity > 0 ? 1 : 0)};
  }

  void begin_round(Gradient& gradient) final {
    round_ = gradient.round;
    while (!came_.empty() && came_.begin()->first.round < round_) came_.erase(came_.begin());
    std::fill(ready_.begin(), ready_.end(), false);
  }

  void on_parcel_ready(Round round, ParcelId parcel) final {
    ready_[parcel] = true;
    if (peers_ == 1 && momentum(parcel) == 0) return finish(round, parcel);
    start(round, parcel);
    advance(parcel);
  }

  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const final {
    const auto entries = entries_of(from, parcel, tag);
    if (!entries) return Verdict::never(Refusal::tag);
    if (round > round_ + 1) return Verdict::never(Refusal::round);  // it needs this peer's part of each
    const bool came = came_.contains(Key{round, parcel, tag, from});
    return round < round_ || came ? Verdict::past() : Verdict::now(*entries);
  }

  void on_message(PeerId from, Message message) final {
    const ParcelId parcel = message.parcel;
    const Key key{message.round, parcel, message.tag, from};
    came_.emplace(key, std::move(message));
    advance(parcel);
  }

  std::vector<Awaited> awaits() const final {
    std::vector<Awaited> awaited;
    for (ParcelId p = 0; p < ready_.size(); ++p)
      for (PeerId from = 0; ready_[p] && from < peers_; ++from)
        if (from != self_ && misses(from, p)) awaited.push_back({from, round_, p});
    return awaited;
  }

  void archive(Archive archive) final {
    archive.value("round", round_);
    std::vector<std::pair<PeerId, Message>> early;
    for (const auto& [key, message] : came_)
      if (message && key.round > round_) early.emplace_back(key.from, *message);
    archive_messages(
        archive.part("inbox"),
        [&](PeerId p) { return p < peers_ && p != self_ ? host_.plan().parcels.size() : 0; }, early);
    if (!archive.restores()) return;
    came_.clear();
    for (auto& [from, message] : early) {
      const Key key{message.round, message.parcel, message.tag, from};
      came_.emplace(key, std::move(message));
    }
  }

 protected:
  virtual void start(Round round, ParcelId parcel) = 0;
  /// Of the messages that the peer sends this one; none where it sends none such.
  virtual std::optional<std::size_t> entries_of(PeerId from, ParcelId parcel, std::uint32_t tag) const = 0;
  /// Uses what has come, as far as it goes.
  virtual void progress(Round round, ParcelId parcel) = 0;

  void advance(ParcelId parcel) {
    if (ready_[parcel]) progress(round_, parcel);
  }

  std::optional<Message> take(Round round, ParcelId parcel, std::uint32_t tag, PeerId from) {
    const auto at = came_.find(Key{round, parcel, tag, from});
    if (at == came_.end() || !at->second) return std::nullopt;
    Message m = std::move(*at->second);
    at->second.reset();
    host_.consumed(from, m);
    return m;
  }
  /// It came, and was not taken.
  bool has(Round round, ParcelId parcel, std::uint32_t tag, PeerId from) const {
    const auto at = came_.find(Key{round, parcel, tag, from});
    return at != came_.end() && at->second;
  }

  /// The parcel's sum is told by these, or stands in its slot.
  void finish(Round round, ParcelId parcel, op::Parts parts = {}) {
    ready_[parcel] = false;
    const bool all = sums_->whole(parcel, std::move(parts));
    if (host_.plan().planted.is(Bug::stepped_in_part)) return step_by_sums(round, {parcel});
    if (!all) return;
    std::vector<ParcelId> parcels(ready_.size());
    std::iota(parcels.begin(), parcels.end(), ParcelId{0});
    step_by_sums(round, parcels);
  }

  /// Payloads by their weights.
  using Sum = std::vector<std::pair<float, Payload>>;
  /// Of the parcel, as payloads of few entries: what they hold is all that the step is to touch.
  bool steps_by_few(ParcelId parcel, const Sum& sum) const {
    std::size_t bytes = 0;
    for (const auto& [weight, payload] : sum) bytes += payload->size();
    return host_.plan().steps_sparsely && bytes <= host_.plan().parcels[parcel].range.size / 4;
  }
  /// The parcel's sum is this one; without velocity.
  void finish_with(Round round, ParcelId parcel, Sum sum) {
    if (steps_by_few(parcel, sum)) {
      unstepped_[parcel] = std::move(sum);
    } else {
      const Range r = host_.plan().parcels[parcel].range;
      host_.submit(op::Combine{r, kGradient, 0, {}});
      for (auto& [weight, payload] : sum)
        host_.submit(op::DecodeAdd{r, kGradient, weight, std::move(payload)});
    }
    finish(round, parcel);
  }

  /// Before a parcel's gradient is encoded: makes it what is to be coded.
  std::vector<Op> prepared(Round round, ParcelId parcel) const {
    std::vector<Op> ops = clipped(parcel);
    if (codes_velocity() && round > 0)
      ops.emplace_back(
          op::Combine{host_.plan().parcels[parcel].range, kGradient, 1, {{velocity(), velocity_}}});
    return ops;
  }
  /// Clips the parcel's whole layer, whose last parcel comes first. By its share of the sum a layer's norm
  /// stays under clip/√P (deep gradient compression, section 3.2), so that the sum of P independent ones
  /// stays near clip.
  std::vector<Op> clipped(ParcelId parcel) const {
    const Plan& plan = host_.plan();
    const auto& parcels = plan.parcels;
    const std::size_t layer = parcels[parcel].layer;
    const bool last = parcel + 1 == parcels.size() || parcels[parcel + 1].layer != layer;
    if (plan.exchange.clip == 0 || !last || parcels[parcel].state) return {};
    Range whole = parcels[parcel].range;
    for (std::size_t p = parcel; p > 0 && parcels[p - 1].layer == layer; --p) {
      whole.size += whole.begin - parcels[p - 1].range.begin;
      whole.begin = parcels[p - 1].range.begin;
    }
    const double limit = plan.exchange.clip / std::sqrt(static_cast<double>(peers_));
    return {op::Clip{whole, limit / plan.share[self_]}};
  }
  /// Of the peers' gradients, before they are encoded; a state has none. Where it is above 0 the only peer,
  /// too, steps by what it encodes, and does that exactly: by its velocity.
  float momentum(ParcelId parcel) const {
    const Plan& plan = host_.plan();
    return plan.parcels[parcel].state ? 0.0f : static_cast<float>(plan.exchange.momentum_correction);
  }

  float share(PeerId peer) const { return static_cast<float>(host_.plan().share[peer]); }
  Range slice(ParcelId parcel, PeerId owner) const {
    return slice_of(host_.plan().parcels[parcel].range, owner, peers_);
  }
  /// slot's slice ← decoded payload
  void overwrite(Range r, Slot slot, const Payload& payload) { host_.submit(op::Decode{r, slot, payload}); }

  ExchangeHost& host_;
  const PeerId peers_, self_;

 private:
  void step_by_sums(Round round, const std::vector<ParcelId>& parcels) {
    op::StepByParts by_parts;  // first: an optimiser may want all that it steps by to stand
    std::vector<ParcelId> others;
    for (const ParcelId p : parcels) {
      if (op::Parts parts = sums_->take(p); parts.empty())
        others.push_back(p);
      else
        by_parts.steps.emplace_back(update(round, p), std::move(parts));
    }
    if (!by_parts.steps.empty()) host_.submit(std::move(by_parts));
    for (const ParcelId p : others) step_without_parts(round, p);
    for (const ParcelId p : parcels) host_.saw_staleness(0), host_.mixed(p);
  }
  void step_without_parts(Round round, ParcelId parcel) {
    const Range r = host_.plan().parcels[parcel].range;
    if (!unstepped_[parcel].empty())
      return host_.submit(op::StepBySum{host_.update(r, round), std::exchange(unstepped_[parcel], {})});
    if (codes_velocity()) take_out_velocity(round, r);
    host_.submit(op::Step{update(round, parcel)});
  }
  /// By the sum in its slot.
  op::Update update(Round round, ParcelId parcel) const {
    op::Update update = host_.update(host_.plan().parcels[parcel].range, round);
    update.slot = sum_;
    return update;
  }
  bool codes_velocity() const { return host_.plan().velocity > 0; }
  float velocity() const { return static_cast<float>(host_.plan().velocity); }
  /// g: from the velocity D' that all decoded to D' − m·D; its slot: from D to D'.
  void take_out_velocity(Round round, Range r) {
    const float kept = round > 0 ? velocity() : 0;  // nothing was decoded before the first round
    if (round > 0) host_.submit(op::Combine{r, kGradient, 1, {{-kept, velocity_}}});
    host_.submit(op::Combine{r, velocity_, kept, {{1, kGradient}}});
  }

  /// Something that the peer sends in a round has not come in the present one.
  bool misses(PeerId from, ParcelId parcel) const {
    for (std::uint32_t tag = 0; tag < 2 * peers_ + 2; ++tag)  // more than any method has
      if (entries_of(from, parcel, tag) && !came_.contains(Key{round_, parcel, tag, from})) return true;
    return false;
  }

  struct Key {
    Round round;
    ParcelId parcel;
    std::uint32_t tag;
    PeerId from;
    auto operator<=>(const Key&) const = default;
  };
  const std::shared_ptr<RoundSums> sums_;
  const Slot sum_;
  const Slot velocity_;  ///< holds D
  Round round_ = 0;
  std::vector<bool> ready_;
  std::vector<Sum> unstepped_;                  ///< by parcel; empty: the sum stands elsewhere
  std::map<Key, std::optional<Message>> came_;  ///< in this round and the next; none once it was taken
};

}  // namespace gossamer::node
