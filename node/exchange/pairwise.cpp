// AD-PSGD (Lian et al. 2018, "Asynchronous decentralized parallel stochastic gradient descent"): pairs of
// neighbours average whenever one of them asks, and nobody waits for anybody.
//
//   g at a snapshot of x;   x ← x − u(g);   one neighbour j is drawn, and x_i, x_j ← (x_i + x_j) / 2
//
// The gradient is computed in kParameters, the snapshot; x itself is the slot kShared, which neighbours may
// change meanwhile. Averaging takes two messages and no lock: i sends x_i ("request"); j computes
// d = (x_i − x_j) / 2, adds d to its x_j as that stands then, and sends d ("answer"); i subtracts d from its
// x_i as that stands by then. What one gains the other loses, so that Σ x is kept whatever either did in
// between, and i goes on computing. A parcel has at most one request under way, else a round sends none:
// more of them would carry x_i past the mean of those whom it asked. Nothing in this can block, on any graph,
// cycles of odd length (which the locks of the paper's own program must avoid) included.
//
// Two that ask each other at the same time would swap their parameters in place of averaging them. Both see
// it, because messages of a link arrive in order: a peer that waits for j's answer and hears j ask was not
// heard by j before. Of the two requests that of the peer of higher number is declined.
//
// With exchange.local_steps = H a peer asks after every H-th step alone.
//
// Whom a peer asks comes from the job's seed, its number and the round; all neighbours of the round alike,
// whatever their weights and the direction of the edge. Staleness is the rounds from a request to its answer:
// without a bound, reported. A peer that has done its last step answers on until all have, and counts as done
// only when its own requests are answered. Slots: 2 holds x, 3 the difference d. Dense.
#include <algorithm>
#include <array>

#include "hash.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kShared = 2, kDifference = 3;
enum Tag : std::uint32_t { kRequest = 0, kAnswer = 1, kDeclined = 2 };

class Pairwise final : public Exchange {
 public:
  explicit Pairwise(ExchangeHost& host)
      : host_(host),
        self_(host.plan().self),
        read_(host.plan().parcels.size(), false),
        asked_(host.plan().parcels.size()) {}

  void begin_round(Gradient& gradient) override {
    round_ = gradient.round;
    read_.assign(read_.size(), true);
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    return {host_.update(range(parcel), round)};
  }

  void on_parcel_ready(Round round, ParcelId parcel) override {
    read_[parcel] = false;
    host_.submit(op::Combine{range(parcel), kShared, 1, {{-1.0f, kGradient}}});
    show(parcel);
    if (!under_way(parcel)) ask(round, parcel);
    host_.mixed(parcel);
  }

  void on_encoded(const Encoded& e) override {
    if (e.tag != kRequest)
      host_.send(asker_of(e.tag), {e.round, e.parcel, kAnswer, e.entries, e.payload});
    else if (const auto& asked = asked_[e.parcel]; asked && asked->round == e.round)
      host_.send(asked->peer, {e.round, e.parcel, kRequest, e.entries, e.payload});
  }

  Verdict judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const override {
    if (tag > kDeclined) return Verdict::never(Refusal::tag);
    const auto& asked = asked_[parcel];
    if (tag != kRequest && !(asked && asked->peer == from && asked->round == round))
      return Verdict::never(Refusal::round);
    return Verdict::now(tag == kDeclined ? 0 : range(parcel).size);
  }

  void on_message(PeerId from, Message message) override {
    host_.consumed(from, message);
    auto& asked = asked_[message.parcel];
    const bool awaited = asked && asked->peer == from;
    if (message.tag == kRequest) {
      if (awaited && self_ < from)
        decline(from, message);
      else
        answer(from, message);
    } else if (awaited && asked->round == message.round) {
      if (message.tag == kAnswer) take(message);
      asked.reset();
    }
  }

  std::vector<Awaited> awaits() const override {
    std::vector<Awaited> answers;
    for (ParcelId p = 0; p < asked_.size(); ++p)
      if (under_way(p)) answers.push_back({asked_[p]->peer, asked_[p]->round, p});
    return answers;
  }

  /// What was asked for is awaited, so that nothing of it is under way.
  void archive(Archive archive) override { archive.value("round", round_); }

 private:
  struct Asked {
    PeerId peer;
    Round round;
  };

  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  static std::uint32_t tag_for(PeerId asker) { return 1 + asker; }
  static PeerId asker_of(std::uint32_t tag) { return tag - 1; }

  /// Who has gone answers no more.
  bool under_way(ParcelId parcel) const { return asked_[parcel] && !host_.gone(asked_[parcel]->peer); }

  void ask(Round round, ParcelId parcel) {
    asked_[parcel].reset();
    const auto peer = draw(round);
    if (!peer) return;
    asked_[parcel] = Asked{*peer, round};
    host_.submit(op::encode_exactly(range(parcel), kShared, round, parcel, kRequest));
  }

  /// The round's partner; the same for every parcel. Empty where there is none to ask.
  std::optional<PeerId> draw(Round round) const {
    const auto& edges = host_.plan().schedule.at(round);
    const auto out = edges.out(self_);
    std::vector<PeerId> there(out.begin(), out.end());
    for (const auto& e : edges.in(self_))
      if (std::find(out.begin(), out.end(), e.peer) == out.end()) there.push_back(e.peer);
    std::erase_if(there, [&](PeerId p) { return host_.gone(p); });
    if (there.empty()) return std::nullopt;
    const std::array<std::uint64_t, 2> counter{self_, round};
    return there[hash_bytes(std::as_bytes(std::span(counter)), host_.plan().seed) % there.size()];
  }

  void answer(PeerId from, const Message& m) {
    const Range r = range(m.parcel);
    host_.submit(op::Combine{r, kDifference, 0, {{-0.5f, kShared}}});
    host_.submit(op::DecodeAdd{r, kDifference, 0.5f, m.payload});
    host_.submit(op::Encode{.range = r,
                            .src = kDifference,
                            .minus = {},
                            .apply_to = kShared,
                            .exact = true,
                            .round = m.round,
                            .parcel = m.parcel,
                            .tag = tag_for(from)});
    show(m.parcel);
  }

  void decline(PeerId from, const Message& m) {
    host_.send(from, {m.round, m.parcel, kDeclined, 0, std::make_shared<const std::vector<std::byte>>()});
  }

  void take(const Message& m) {
    if (!host_.plan().planted.is(Bug::answer_not_taken))
      host_.submit(op::DecodeAdd{range(m.parcel), kShared, -1.0f, m.payload});
    show(m.parcel);
    host_.saw_staleness(round_ - m.round);
  }

  /// The next gradient is computed at x as it stands now, unless one is being computed.
  void show(ParcelId parcel) {
    if (!read_[parcel]) host_.submit(op::Combine{range(parcel), kParameters, 0, {{1.0f, kShared}}});
  }

  ExchangeHost& host_;
  const PeerId self_;
  Round round_ = 0;
  std::vector<bool> read_;                   ///< per parcel: a gradient is being computed at the snapshot
  std::vector<std::optional<Asked>> asked_;  ///< per parcel: the request that is under way
};

std::unique_ptr<Exchange> make_pairwise(ExchangeHost& host) { return std::make_unique<Pairwise>(host); }

}  // namespace

constinit const Method kPairwiseMethod{
    .row = {"pairwise",
            "averages with one neighbour at a time, drawn each round, all alike whatever graph.weights says; "
            "nobody waits (AD-PSGD)"},
    .needs = {.code = Needs::Code::exact,
              .may_wait = false,
              .reads = "local_steps",
              .why_code = kWholeState,
              .why_unbounded = "it waits for nobody, so that no bound can be kept; use staleness = "
                               "\"unbounded\", or method 'dpsgd'"},
    .make = make_pairwise,
    .buffers = [](const Plan&) { return Buffers{.slots = 2}; },
    .serves_after_end = true,
    .pattern = Pattern{.messages = Pattern::Messages::pairs, .mixing = Pattern::Mixing::pairs},
    .invariants = {.own = MethodInvariants::Own::pairs},
    .idle_rounds = true,
    .usual_local_steps = 1};

}  // namespace gossamer::node
