// CHOCO-SGD (Koloskova, Stich & Jaggi 2019, algorithm 2): compressed gossip that converges for any
// contractive code Q.
//
//   x½ = x − u;   q = Q(x½ − x̂_i), sent;   x̂_j += q_j for every neighbour j and for i itself;
//   x ← x½ + γ Σ_j W_ij (x̂_j − x̂_i)
//
// x̂_j ("estimate") is this peer's copy of what j has told so far; j keeps the same bits as its own x̂. All
// start at the common x⁰. Deltas of one link apply in order and none is skipped, which is what keeps both
// ends in lockstep.
//
// Synchronous: one own estimate serves every neighbour, because all have had the same deltas. Otherwise there
// is one own estimate per outgoing link: a link whose messages are not used fast enough is left out for that
// round before encoding, so that its next delta carries what this one would have. That neighbour is left out
// of the round's mixing too: x̂_i of an unused link stands still while x moves, and the same difference added
// again every round would carry x past the goal. Without a bound the others are mixed at their fair part
// (gossip.h).
//
// With exchange.overlap q of x as it is goes out before the gradient at it is computed, and the round ends in
// x ← x + γ Σ_j W_ij (x̂_j − x̂_i) − u: the same steps in the same order, but that the gradient is taken before
// the mixing and not after it, while messages travel. So do deep_squeeze and moniqua.
//
// With exchange.local_steps = H nothing is sent nor mixed after the other H − 1 of H steps (Basu, Data,
// Karakus & Diggavi 2019, "Qsparse-local-SGD"; over any graph Singh, Data, George & Diggavi 2021,
// "SQuARM-SGD", without its trigger).
//
// The graph is static and W symmetric. Slots: estimates of neighbours first, then own estimates.
#include <cassert>

#include "gossip.h"
#include "method.h"

namespace gossamer::node {
namespace {

/// The one in which neighbours hear of each other: the last of local_steps.
const topology::MixingMatrix& mixing(const Plan& plan) {
  return plan.schedule.at(plan.schedule.period() - 1);
}

class Choco final : public Gossip {
 public:
  explicit Choco(ExchangeHost& host)
      : Gossip(host),
        neighbours_(mixing(host.plan()).in(host.plan().self)),
        deltas_(host.plan().parcels.size(), std::vector<Deltas>(neighbours_.size())) {
    assert(host.plan().schedule.period() == local_steps(host.plan().exchange));
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override { return own_step(round, parcel); }

  void on_encoded(const Encoded& e) override {
    const Message message{e.round, e.parcel, 0, e.entries, e.payload};
    if (!synchronous()) {
      const PeerId to = neighbours_[e.tag].peer;
      if (host_.plan().planted.is(Bug::delta_encoded_not_sent) && !host_.can_send(to, e.parcel)) return;
      return host_.send(to, message);
    }
    for (const auto& n : neighbours_) host_.send(n.peer, message);
  }

  void archive(Archive archive) override {
    Gossip::archive(archive);
    std::vector<std::uint64_t> counts;
    for (const auto& of_parcel : deltas_)
      for (const Deltas& d : of_parcel) counts.insert(counts.end(), {d.sent, d.came});
    archive.numbers("deltas", counts, counts.size());
    auto next = counts.begin();
    for (auto& of_parcel : deltas_)
      for (Deltas& d : of_parcel) {
        d.sent = *next++;
        d.came = *next++;
      }
  }

 private:
  Slot estimate(std::size_t neighbour) const { return static_cast<Slot>(2 + neighbour); }
  /// What neighbour number n knows of this peer.
  Slot own(std::size_t n) const {
    return static_cast<Slot>(2 + neighbours_.size() + (synchronous() ? 0 : n));
  }

  Op encode(Round round, ParcelId parcel, std::size_t n) const {
    return op::Encode{.range = range(parcel),
                      .src = kParameters,
                      .minus = own(n),
                      .apply_to = own(n),
                      .round = round,
                      .parcel = parcel,
                      .tag = static_cast<std::uint32_t>(n)};
  }

  std::vector<Op> offer(Round round, ParcelId parcel) const override {
    return synchronous() ? std::vector<Op>{encode(round, parcel, 0)} : std::vector<Op>();
  }

  void after_step(Round round, ParcelId parcel) override {
    if (synchronous() || idle(round)) return;
    const bool may_skip =
        !host_.plan().exchange.staleness;  // a bounded neighbour may be waiting for this round
    told_.assign(neighbours_.size(), true);
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      told_[n] = !may_skip || host_.can_send(neighbours_[n].peer, parcel) ||
                 host_.plan().planted.is(Bug::delta_encoded_not_sent);
      if (!told_[n]) {
        host_.count_held_back();
        continue;
      }
      ++deltas_[parcel][n].sent;
      host_.submit(encode(round, parcel, n));
    }
  }

  void mix(Round round, ParcelId parcel) override {
    if (idle(round)) return;
    const Range r = range(parcel);
    const auto gamma = static_cast<float>(host_.plan().gamma);
    op::Combine combine{r, kParameters, 1, {}};
    float sum = 0;
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      absorb(round, parcel, n);
      if (!synchronous() && !told_[n]) continue;
      const Deltas& d = deltas_[parcel][n];
      const float weight = gamma * neighbours_[n].weight * fair_part(d.sent, d.came);
      combine.terms.emplace_back(weight, estimate(n));
      if (!synchronous()) combine.terms.emplace_back(-weight, own(n));
      sum += weight;
    }
    if (synchronous()) combine.terms.emplace_back(-sum, own(0));
    host_.submit(with_step(round, std::move(combine)));
  }

  /// Every delta that came, in order; in synchronous rounds those up to this round.
  void absorb(Round round, ParcelId parcel, std::size_t n) {
    const PeerId from = neighbours_[n].peer;
    Inbox& box = inbox(from, parcel);
    while (!box.waiting.empty() && (!synchronous() || box.waiting.front().round <= round)) {
      const bool twice = host_.plan().planted.is(Bug::delta_applied_twice) && box.waiting.size() > 1;
      const op::DecodeAdd delta{range(parcel), estimate(n), 1.0f, take(from, box).payload};
      ++deltas_[parcel][n].came;
      if (twice) host_.submit(delta);
      host_.submit(delta);
    }
  }

  /// Asynchronous: a delta goes to a neighbour in every round that mixes with it, and comes in every such
  /// round of its own.
  struct Deltas {
    Round sent = 0, came = 0;
  };

  std::span<const topology::Edge> neighbours_;
  std::vector<std::vector<Deltas>> deltas_;  ///< [parcel][number of the neighbour]
  std::vector<bool>
      told_;  ///< asynchronous: neighbours that this round's delta of the parcel at hand went to
};

Buffers estimates(const Plan& plan) {
  const std::size_t neighbours = mixing(plan).in(plan.self).size();
  return {.slots = neighbours + (plan.exchange.staleness == 0 ? 1 : neighbours),
          .models = {},
          .extension = {},
          .anchored = true};
}

std::string overlapped_and_stale(const ExchangeSettings& e) {
  if (!e.overlap || e.staleness == 0u) return {};
  return "method 'choco' takes exchange.overlap in synchronous rounds only: whoever may run ahead of its "
         "neighbours does not wait for what travels; leave exchange.overlap or exchange.staleness out";
}

std::unique_ptr<Exchange> make_choco(ExchangeHost& host) { return std::make_unique<Choco>(host); }

}  // namespace

constinit const Method kChocoMethod{
    .row =
        {"choco",
         "compressed gossip of parameter differences (CHOCO-SGD); static symmetric graph, contractive codec"},
    .needs = {.weights = Needs::Weights::symmetric,
              .code = Needs::Code::contractive,
              .may_vary = false,
              .gamma = Needs::Gamma::differences,
              .reads = "aggregate gamma local_steps overlap dense_below dense_rounds",
              .why_weights = "use graph.directed = false with weights 'metropolis', or method 'dpsgd'",
              .why_static =
                  "keeps an estimate of every neighbour from all its messages, which a time-varying graph "
                  "breaks: a peer that is a neighbour only in some rounds misses the others' deltas; use "
                  "method 'dpsgd' or 'deep_squeeze', or a static graph such as 'exponential' with "
                  "graph.directed = false",
              .why_code = "its estimates would run away from what they estimate; use 'qsgd:bits=4,norm=max', "
                          "'onebit_scaled' or 'topk'"},
    .make = make_choco,
    .buffers = estimates,
    .pattern = Pattern{.mixing = Pattern::Mixing::estimates},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels, .leaves_out = true},
    .idle_rounds = true,
    .usual_local_steps = 1,
    .refusal = overlapped_and_stale};

}  // namespace gossamer::node
