// Rounds that close early ("partial" synchronisation): with exchange.backup = b a peer's round t closes when
// all but b of its neighbours have been heard in it, so that b stragglers at a time set nobody's pace
// (Chen et al. 2016, "Revisiting distributed synchronous SGD", backup workers; Luo et al. 2019, "Hop", for
// graphs). With exchange.staleness = s > 0 no neighbour may be more than s rounds behind all the same:
// bounded delay, as in asynchronous consensus ADMM (Zhang & Kwok 2014).
//
// What a round used is used once; what comes later is folded into the next one, whatever round it is of:
//
//   dpsgd                       x_i ← (W_ii x_i + Σ_j W_ij x_j) / (W_ii + Σ_j W_ij), j over those of whom
//   something came
//                               since the last round, each with the newest. A parameter message supersedes
//                               the older ones, which are dropped. What stays is that the weights of every
//                               row sum to 1: equal parameters stay equal. The mean over the peers is not
//                               kept while someone is late.
//   broadcast, topk_allgather   g_i ← Σ s_j g_j over every gradient that came since the last round, s_j the
//                               sender's share of the samples, not renormalised: every gradient that comes
//                               before a peer's last round enters its x exactly once, with the same weight
//                               at every peer, so that peers differ by what is under way and by rounding.
//                               That takes an optimiser whose steps add up whatever rounds they fall into:
//                               sgd, momentum, nesterov (at the rate of that round, where rates change). Bits
//                               are not the same on all peers.
//
// A peer that finds all but b of its neighbours in a later round than its own ("front" F) has missed the
// rounds before: it takes in all that came up to F − 1 and goes on with round F. So it computes fewer
// gradients than others, and no old ones; its data count that much less.
//
// With run.straggler = "without" a round that took too long (Exchange::on_overdue) closes with what has come,
// were it nothing; the front is then the least later round that some neighbour is heard in. The bound holds
// all the same, and keeps down what waits for a slow link.
//
// The peer in the least round can always close it once its neighbours have made their steps, since all send
// in each round before they wait: no deadlock. Senders never leave a message out, for the same reason.
#include <algorithm>
#include <deque>
#include <utility>

#include "exchange.h"
#include "message_state.h"
#include "own_key.h"

namespace gossamer::node {
namespace {

class Partial : public Exchange {
 public:
  explicit Partial(ExchangeHost& host)
      : host_(host),
        row_(host.plan().schedule.at(0).in(host.plan().self)),
        boxes_(host.plan().parcels.size(), std::vector<Box>(row_.size())),
        stepped_(boxes_.size(), false) {}

  void begin_round(Gradient& gradient) override {
    round_ = gradient.round;
    overdue_ = counted_ = false;
  }

  void on_overdue() final {
    overdue_ = true;
    for (ParcelId p = 0; p < stepped_.size(); ++p) advance(p);
  }

  void on_parcel_ready(Round, ParcelId parcel) final {
    stepped_[parcel] = true;
    advance(parcel);
  }

  void on_encoded(const Encoded& e) override {
    for (const PeerId to : host_.plan().schedule.at(0).out(host_.plan().self))
      host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
  }

  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const final {
    const auto n = number_of(from);
    if (!n || tag != 0) return Verdict::never(Refusal::tag);
    return round < boxes_[parcel][*n].next ? Verdict::past() : Verdict::now(range(parcel).size);
  }

  void on_message(PeerId from, Message message) final {
    const ParcelId parcel = message.parcel;
    Box& box = boxes_[parcel][*number_of(from)];
    box.next = message.round + 1;
    box.waiting.push_back(std::move(message));
    advance(parcel);
  }

  std::vector<Awaited> awaits() const final {
    std::vector<Awaited> awaited;
    for (ParcelId p = 0; p < stepped_.size(); ++p)
      for (std::size_t n = 0; stepped_[p] && n < row_.size(); ++n)
        if (const Round next = boxes_[p][n].next; next <= round_) awaited.push_back({row_[n].peer, next, p});
    return awaited;
  }

  void archive(Archive archive) final {
    archive.value("round", round_);
    std::vector<std::pair<PeerId, Message>> waiting;
    std::vector<std::uint64_t> next;
    for (const auto& boxes : boxes_)
      for (std::size_t n = 0; n < boxes.size(); ++n) {
        for (const Message& m : boxes[n].waiting) waiting.emplace_back(row_[n].peer, m);
        next.push_back(boxes[n].next);
      }
    archive.numbers("next", next, next.size());
    archive_messages(
        archive.part("inbox"), [&](PeerId p) { return number_of(p) ? boxes_.size() : 0; }, waiting);
    if (!archive.restores()) return;
    auto at = next.begin();
    for (auto& boxes : boxes_)
      for (Box& box : boxes) box = {{}, *at++};
    for (auto& [from, message] : waiting)
      boxes_[message.parcel][*number_of(from)].waiting.push_back(std::move(message));
  }

 protected:
  /// What neighbour row_[n] sent of a parcel.
  struct Box {
    std::deque<Message> waiting;  ///< rounds ascending
    Round next = 0;               ///< after the newest that came
  };
  /// Uses what waits up to round `last`.
  virtual void close(ParcelId parcel, Round last) = 0;

  /// The payloads of neighbour row_[n] up to a round, oldest first, acknowledged as used.
  std::vector<Payload> take(ParcelId parcel, std::size_t n, Round last) {
    std::vector<Payload> payloads;
    auto& waiting = boxes_[parcel][n].waiting;
    for (; !waiting.empty() && waiting.front().round <= last; waiting.pop_front()) {
      if (waiting.front().round < round_) host_.saw_staleness(round_ - waiting.front().round);
      host_.consumed(row_[n].peer, waiting.front());
      payloads.push_back(std::move(waiting.front().payload));
    }
    return payloads;
  }
  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }

  ExchangeHost& host_;
  std::span<const topology::Edge> row_;
  Round round_ = 0;

 private:
  std::optional<std::size_t> number_of(PeerId peer) const {
    for (std::size_t n = 0; n < row_.size(); ++n)
      if (row_[n].peer == peer) return n;
    return std::nullopt;
  }

  Round bound() const { return host_.plan().exchange.staleness.value_or(0); }

  /// The newest round, plus one, in which all but b neighbours have been heard; where the round is overdue,
  /// all but those that have not been heard in it.
  Round after_front(ParcelId parcel) {
    if (row_.empty()) return round_ + 1;
    std::vector<Round> next;
    for (const Box& b : boxes_[parcel]) next.push_back(b.next);
    std::sort(next.begin(), next.end());
    const Round after = next[host_.plan().exchange.backup];
    if (after > round_ || !overdue_) return after;
    if (!std::exchange(counted_, true)) host_.count_closed_without();
    const auto ahead = std::upper_bound(next.begin(), next.end(), round_);
    return ahead == next.end() ? round_ + 1 : *ahead;
  }

  bool within_bound(ParcelId parcel) const {
    return bound() == 0 || std::all_of(boxes_[parcel].begin(), boxes_[parcel].end(),
                                       [&](const Box& b) { return b.next + bound() > round_; });
  }

  void advance(ParcelId parcel) {
    if (!stepped_[parcel] || !within_bound(parcel)) return;
    const Round after = after_front(parcel);
    if (after <= round_) return;
    const Round last = after > round_ + 2 ? after - 2 : round_;  // what is before the front
    stepped_[parcel] = false;
    close(parcel, last);
    host_.mixed(parcel, last);
  }

  std::vector<std::vector<Box>> boxes_;  ///< [parcel][number in row_]
  std::vector<bool> stepped_;            ///< per parcel: own step of round_ is done, the round still open
  bool overdue_ = false;                 ///< round_ took too long
  bool counted_ = false;                 ///< and was told
};

class PartialDpsgd final : public Partial {
 public:
  using Partial::Partial;

  void begin_round(Gradient& gradient) override {
    Partial::begin_round(gradient);
    const auto parcels = static_cast<ParcelId>(host_.plan().parcels.size());
    for (ParcelId p = 0; overlap() && p < parcels; ++p) host_.submit(encode(gradient.round, p));
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    if (overlap()) return {host_.update(range(parcel), round)};
    return {host_.step(range(parcel), round), encode(round, parcel)};
  }

 private:
  bool overlap() const { return host_.plan().exchange.overlap; }
  Op encode(Round round, ParcelId parcel) const {
    return op::Encode{.range = range(parcel),
                      .src = kParameters,
                      .minus = {},
                      .apply_to = {},
                      .round = round,
                      .parcel = parcel};
  }

  void close(ParcelId parcel, Round last) override {
    std::vector<std::pair<float, Payload>> came;
    float sum = host_.plan().schedule.at(0).self_weight(host_.plan().self);
    const float own = sum;
    for (std::size_t n = 0; n < row_.size(); ++n)
      if (const auto payloads = take(parcel, n, last); !payloads.empty()) {
        came.emplace_back(row_[n].weight, payloads.back());
        sum += row_[n].weight;
      }
    if (!came.empty()) host_.submit(op::Combine{range(parcel), kParameters, own / sum, {}});
    for (const auto& [weight, payload] : came)
      host_.submit(op::DecodeAdd{range(parcel), kParameters, weight / sum, payload});
    if (overlap()) host_.submit(op::Combine{range(parcel), kParameters, 1, {{-1.0f, kGradient}}});
  }
};

class PartialBroadcast final : public Partial {
 public:
  PartialBroadcast(ExchangeHost& host, bool feedback)
      : Partial(host), feedback_(feedback ? 0 : -1), own_(host.plan().parcels.size()) {}

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    return {op::Encode{.range = range(parcel),
                       .src = kGradient,
                       .minus = {},
                       .apply_to = {},
                       .feedback = feedback_,
                       .round = round,
                       .parcel = parcel}};
  }

  void on_encoded(const Encoded& e) override {
    own_[e.parcel] = e.payload;  // before the parcel is ready
    Partial::on_encoded(e);
  }

 private:
  float share(PeerId peer) const { return static_cast<float>(host_.plan().share[peer]); }

  void close(ParcelId parcel, Round last) override {
    const Range r = range(parcel);
    host_.submit(op::Combine{r, kGradient, 0, {}});
    host_.submit(op::DecodeAdd{r, kGradient, share(host_.plan().self), own_[parcel]});
    for (std::size_t n = 0; n < row_.size(); ++n) {
      std::vector<Payload> payloads = take(parcel, n, last);
      if (host_.plan().planted.is(Bug::late_gradient_dropped) && payloads.size() > 1) payloads.resize(1);
      for (Payload& payload : payloads)
        host_.submit(op::DecodeAdd{r, kGradient, share(row_[n].peer), std::move(payload)});
    }
    host_.submit(host_.step(r, round_));
  }

  int feedback_;
  std::vector<Payload> own_;  ///< per parcel: this round's
};

}  // namespace

std::unique_ptr<Exchange> make_partial_dpsgd(ExchangeHost& host) {
  return std::make_unique<PartialDpsgd>(host);
}
std::unique_ptr<Exchange> make_partial_broadcast(ExchangeHost& host, bool feedback) {
  return std::make_unique<PartialBroadcast>(host, feedback);
}

}  // namespace gossamer::node
