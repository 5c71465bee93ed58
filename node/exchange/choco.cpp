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
// Synchronous: one own estimate serves every neighbour, because all have had the same deltas; and of the
// estimates only their sum s = Σ_j W_ij (x̂_j − x̂_i) is kept, which is 0 at first and takes in each delta as
// it comes, the own one too (ibid., appendix E): three vectors, however many neighbours. Its rounding errors
// are of the size of what peers differ by. Otherwise there is one own estimate per outgoing link: a link
// whose messages are not used fast enough is left out for that round before encoding, so that its next delta
// carries what this one would have. That neighbour is left out of the round's mixing too: x̂_i of an unused
// link stands still while x moves, and the same difference added again every round would carry x past the
// goal. Without a bound the others are mixed at their fair part (gossip.h).
//
// With exchange.overlap q of x as it is goes out before the gradient at it is computed, and the round ends in
// x ← x − u + γ Σ_j W_ij (x̂_j − x̂_i): the same steps in the same order, but that the gradient is taken before
// the mixing and not after it, while messages travel. So do deep_squeeze and moniqua. A parcel's next q goes
// out as soon as it has been mixed, whatever the other parcels still wait for.
//
// With exchange.local_steps = H nothing is sent nor mixed after the other H − 1 of H steps (Basu, Data,
// Karakus & Diggavi 2019, "Qsparse-local-SGD"; over any graph Singh, Data, George & Diggavi 2021,
// "SQuARM-SGD"). Not its trigger, by which a parcel tells nothing while it has changed little: Fashion-MNIST
// on a ring of four, half of the messages left out by it leave 1.4 times what H = 2 does between the peers at
// a tenth more bytes; and where it leaves out several in a row, x passes the goal as above, and diverges.
//
// The graph is static and W symmetric. Slots: s, or estimates of neighbours, first, then own estimates.
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
        deltas_(host.plan().parcels.size(), std::vector<Deltas>(neighbours_.size())),
        told_(host.plan().parcels.size()) {
    assert(host.plan().schedule.period() == local_steps(host.plan().exchange));
  }

  void begin_round(Gradient& gradient) override {
    if (synchronous() && gradient.round == 0)
      for (const Parcel& p : host_.plan().parcels) host_.submit(op::Combine{p.range, kSum, 0, {}});
    gradient.steps_in_mix = overlaps(gradient.round);
    Gossip::begin_round(gradient);
  }

  /// Overlapped the own step is taken with the mixing.
  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    return overlaps(round) ? std::vector<Op>() : own_step(round, parcel);
  }

  void on_encoded(const Encoded& e) override {
    const Message message{e.round, e.parcel, 0, e.entries, e.payload};
    if (!synchronous()) {
      const PeerId to = neighbours_[e.tag].peer;
      if (host_.plan().planted.is(Bug::delta_encoded_not_sent) && !host_.can_send(to, e.parcel)) return;
      return host_.send(to, message);
    }
    told_[e.parcel] = e.payload;
    for (const auto& n : neighbours_) host_.send(n.peer, message);
  }

  void archive(Archive archive) override {
    Gossip::archive(archive);
    std::uint64_t summed = synchronous();
    archive.value("summed", summed);
    if (summed != static_cast<std::uint64_t>(synchronous()))
      archive.refuse("summed", "says that the slots hold something else");
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
  static constexpr Slot kSum = 2;  ///< s
  Slot estimate(std::size_t neighbour) const { return static_cast<Slot>(2 + neighbour); }
  /// What neighbour number n knows of this peer.
  Slot own(std::size_t n) const {
    return synchronous() ? kSum + 1 : static_cast<Slot>(2 + neighbours_.size() + n);
  }

  op::Encode encode(Round round, ParcelId parcel, std::size_t n) const {
    return op::Encode{.range = range(parcel),
                      .src = kParameters,
                      .minus = own(n),
                      .apply_to = own(n),
                      .round = round,
                      .parcel = parcel,
                      .tag = static_cast<std::uint32_t>(n)};
  }

  bool offers_ahead() const override { return synchronous(); }
  std::vector<Op> offer(Round round, ParcelId parcel) const override {
    return synchronous() ? std::vector<Op>{encode(round, parcel, 0)} : std::vector<Op>();
  }

  void after_step(Round round, ParcelId parcel) override {
    if (synchronous() || idle(round)) return;
    const bool may_skip =
        !host_.plan().exchange.staleness;  // a bounded neighbour may be waiting for this round
    tells_.assign(neighbours_.size(), true);
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      tells_[n] = !may_skip || host_.can_send(neighbours_[n].peer, parcel) ||
                  host_.plan().planted.is(Bug::delta_encoded_not_sent);
      if (!tells_[n]) {
        host_.count_held_back();
        continue;
      }
      ++deltas_[parcel][n].sent;
      host_.submit(encode(round, parcel, n));
    }
  }

  void mix(Round round, ParcelId parcel) override {
    if (idle(round)) return;
    if (synchronous()) return mix_sum(round, parcel, {});
    op::Combine combine{range(parcel), kParameters, 1, {}};
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      for (Payload& delta : deltas_of(parcel, n, std::nullopt)) {
        ++deltas_[parcel][n].came;
        host_.submit(op::DecodeAdd{range(parcel), estimate(n), 1.0f, std::move(delta)});
      }
      if (!tells_[n]) continue;
      const Deltas& d = deltas_[parcel][n];
      const float weight = gamma(round, parcel) * neighbours_[n].weight * fair_part(d.sent, d.came);
      combine.terms.emplace_back(weight, estimate(n));
      combine.terms.emplace_back(-weight, own(n));
    }
    host_.submit(std::move(combine));
  }

  void mix_and_offer(Round round, ParcelId parcel, std::vector<Op> offer) override {
    if (offer.empty()) return mix(round, parcel);
    mix_sum(round, parcel, std::get<op::Encode>(offer.front()));
  }

  void mix_sum(Round round, ParcelId parcel, std::optional<op::Encode> offer) {
    op::Mix mix{range(parcel), kSum, {}, {range(parcel), kParameters, 1, {{gamma(round, parcel), kSum}}}};
    float sum = 0;
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      const float weight = neighbours_[n].weight;
      for (Payload& delta : deltas_of(parcel, n, round)) mix.payloads.emplace_back(weight, std::move(delta));
      sum += weight;
    }
    mix.payloads.emplace_back(-sum, std::move(told_[parcel]));
    if (overlaps(round)) mix.step = host_.update(range(parcel), round);
    mix.encode = std::move(offer);
    host_.submit(std::move(mix));
  }

  /// What came of a neighbour, in order: up to a round, or all.
  std::vector<Payload> deltas_of(ParcelId parcel, std::size_t n, std::optional<Round> last) {
    const PeerId from = neighbours_[n].peer;
    Inbox& box = inbox(from, parcel);
    std::vector<Payload> deltas;
    while (!box.waiting.empty() && (!last || box.waiting.front().round <= *last)) {
      const bool twice = host_.plan().planted.is(Bug::delta_applied_twice) && box.waiting.size() > 1;
      deltas.push_back(take(from, box).payload);
      if (twice) deltas.push_back(deltas.back());
    }
    return deltas;
  }

  float gamma(Round round, ParcelId parcel) const {
    return static_cast<float>(host_.plan().gamma_in(round, parcel));
  }

  /// Asynchronous: a delta goes to a neighbour in every round that mixes with it, and comes in every such
  /// round of its own.
  struct Deltas {
    Round sent = 0, came = 0;
  };

  std::span<const topology::Edge> neighbours_;
  std::vector<std::vector<Deltas>> deltas_;  ///< [parcel][number of the neighbour]
  std::vector<Payload> told_;                ///< synchronous, per parcel: this round's own delta
  /// Asynchronous: neighbours that this round's delta of the parcel at hand goes to.
  std::vector<bool> tells_;
};

Buffers estimates(const Plan& plan) {
  const std::size_t neighbours = mixing(plan).in(plan.self).size();
  return {.slots = plan.exchange.staleness == 0 ? 2 : 2 * neighbours,
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
