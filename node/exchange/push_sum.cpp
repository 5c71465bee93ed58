// SGP (Assran et al. 2019, "Stochastic gradient push for distributed deep learning") on directed and
// time-varying graphs, in the form that survives loss (Spiridonoff, Olshevsky & Paschalidis 2020, "Robust
// asynchronous stochastic gradient-push", algorithm 3).
//
//   u = step for g(z_i);   x_i ← x_i − u;   σ_ij += A_ji x_i and x_i −= that, for every j that i sends to;
//   send σ_ij;   x_i += σ_ji − ρ_ji, ρ_ji ← σ_ji for what came;   the same with w_i in x_i's place;   z_i =
//   x_i / w_i
//
// x_i is the mass that peer i holds, w_i its weight, 1 at first, and z_i (kParameters) what both say of the
// mean. Columns of A sum to 1: a peer gives away all of what it does not keep, and rows need not sum to
// anything. Where its column of W sums to 1 that is A's, elsewhere it keeps as much as each of those get that
// it sends to.
//
// σ_ij is all that i ever sent to j, ρ_ji all that i ever took from j. A message that is lost is thus
// repaired by the next one, and one that is late is left out: with exchange.delivery = "best_effort" nothing
// is resent. Σ over peers of x_i and over edges of σ − ρ is the same before and after whatever comes, to the
// last bit, because all of it is 64-bit fixed point modulo 2⁶⁴ (mass.h); a message takes 8 bytes a parameter.
//
// Where members come and go x, w, σ and ρ outlive views. Peers that were linked and are so no more tell each
// other their σ in the first rounds, so that what was under way between them arrives; nobody waits for it.
//
// In synchronous rounds every peer hears from all that send to it before its next gradient. Where it waits
// less, w may fall as it sends and nothing comes, and a step of u moves z by u / w: a peer then takes u times
// w over the mean of its w of late, so that its steps are of one size in z and still count as much as without
// in the long run; keeps at least a quarter of a peer's weight; and gives away what is above, in the
// proportions of A. Where nobody waits, neighbours that have not used up what they were sent get nothing in
// that round. Who has taken its last step takes in no more mass: that of the few messages which come then is
// nobody's, as what is under way at the end.
#include <cmath>
#include <utility>

#include "gossip.h"
#include "mass.h"
#include "method.h"
#include "reasons.h"
#include "sum_numbers.h"

namespace gossamer::node {
namespace {

constexpr float kLeastWeight = 0.25f;

class PushSum final : public Gossip {
 public:
  static_assert(kSettlingRounds >= kTimesTold);
  explicit PushSum(ExchangeHost& host) : Gossip(host), numbers_(host.plan()) {}

  std::optional<bool> decodes(const Message& m) const override {
    return m.payload->size() == mass_payload_bytes(m.entries);
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    return {host_.update(range(parcel), round)};
  }

  void on_encoded(const Encoded& e) override {
    host_.send(numbers_[e.tag].peer, {e.round, e.parcel, 0, e.entries, e.payload});
  }

  /// The step is in the mass, of which nothing more is given away in this view; what had been is owed.
  void end_alone() override {
    for (ParcelId p = 0; p < host_.plan().parcels.size(); ++p)
      host_.submit(op::Extended{op::Ratio{range(p), p}});
  }

 private:
  void after_step(Round round, ParcelId parcel) override {
    const PeerId self = host_.plan().self;
    op::Push push{range(parcel), parcel, round, {}, synchronous() ? 0.0f : kLeastWeight};
    const bool by_matrix = column_sums_to_one(round);
    const auto out = weights(round).out(self);
    if (host_.ends_alone()) return host_.submit(op::Extended{std::move(push)});
    const bool may_skip =
        !host_.plan().exchange.staleness;  // a bounded neighbour may be waiting for this round
    for (const PeerId to : out)
      if (!may_skip || host_.can_send(to, parcel))
        push.shares.emplace_back(numbers_.sent(to),
                                 by_matrix ? weight(round, to) : 1.0f / static_cast<float>(1 + out.size()));
      else
        host_.count_held_back();
    if (round < kSettlingRounds)
      for (const PeerId to : host_.plan().owed_by(self))
        if (host_.can_send(to, parcel)) push.shares.emplace_back(numbers_.sent(to), 0.0f);
    host_.submit(op::Extended{std::move(push)});
  }

  /// W_{to,self}
  float weight(Round round, PeerId to) const {
    for (const auto& e : weights(round).in(to))
      if (e.peer == host_.plan().self) return e.weight;
    return 0;
  }
  bool column_sums_to_one(Round round) const {
    const PeerId self = host_.plan().self;
    double sum = static_cast<double>(weights(round).self_weight(self));
    if (sum <= 0) return false;  // something must be left that z could be computed from
    for (const PeerId to : weights(round).out(self)) sum += static_cast<double>(weight(round, to));
    return std::abs(sum - 1) < 1e-5;
  }

  void mix(Round round, ParcelId parcel) override {
    const auto absorb = [&](PeerId from, Payload sum) {
      host_.submit(op::Extended{op::Absorb{range(parcel), parcel, numbers_.taken(from), std::move(sum)}});
    };
    for (const MassSum& sum : numbers_.sums()) {
      if (sum.sent) continue;
      Inbox& box = inbox(sum.peer, parcel);
      Payload newest;
      while (!box.waiting.empty() && (!synchronous() || box.waiting.front().round <= round)) {
        newest = take(sum.peer, box).payload;
        if (!sum.by_graph) absorb(sum.peer, std::exchange(newest, nullptr));
      }
      if (newest) absorb(sum.peer, newest);
    }
    host_.submit(op::Extended{op::Ratio{range(parcel), parcel}});
  }

  const SumNumbers numbers_;
};

double mass_bytes(const ExchangeSettings&, std::size_t entries) {
  return static_cast<double>(mass_payload_bytes(entries));
}

Buffers push_sum_buffers(const Plan& plan) {
  const std::vector<MassSum> sums = SumNumbers(plan).sums();
  return {.slots = 0, .models = {}, .extension = [=](const ExtensionInputs& inputs) {
            return std::make_unique<Mass>(inputs.x0, plan.parcels.size(), sums, plan.planted);
          }};
}

std::unique_ptr<Exchange> make_push_sum(ExchangeHost& host) { return std::make_unique<PushSum>(host); }

}  // namespace

constinit const Method kPushSumMethod{
    .row = {"push_sum",
            "sums of mass and weight, for directed and time-varying graphs and lossy networks (SGP)"},
    .needs = {.code = Needs::Code::exact, .may_lose = true, .reads = "local_steps", .why_code = kWholeState},
    .make = make_push_sum,
    .buffers = push_sum_buffers,
    .pattern = Pattern{.bytes = mass_bytes},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels,
                   .overtakes = true,
                   .own = MethodInvariants::Own::mass},
    .idle_rounds = true,
    .usual_local_steps = 1};

}  // namespace gossamer::node
