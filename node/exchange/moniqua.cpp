// Moniqua (Lu & De Sa 2020, "Moniqua: modulo quantized communication in decentralized SGD", algorithm 1):
// compressed gossip that keeps nothing of any neighbour, so that the graph may vary in time and one bit is
// enough.
//
//   x½ = x − u;   q_i = Q(x½/B mod 1), sent;   x̂_j = the number near x½ whose residue is q_j;
//   x ← x½ + γ Σ_j W_ij (x̂_j − x̂_i)
//
// Only where x lies within a cell of size B is sent, in exchange.modulo_bits bits; neighbours, whose
// parameters are near, tell the rest from their own (modulo.h). That is right while no entry of x½ differs by
// B·(½ − δ) between neighbours. B is one number for all peers and parcels: exchange.modulo_bound to begin
// with. It follows the learning rate down, as in the paper (theorem 2): what neighbours differ by falls with
// the rate, and what a coarse code adds to x in every round is in proportion to B. A message carries a hash
// by which the receiver sees that it took the wrong multiple of B; it leaves that message out then, counts
// it, and asks for a doubling of B.
//
// The doubling is agreed on by flooding: whoever sees a wrong message of round t names the round t + delay,
// the earliest that was named goes along with every message, and all change B in that round; delay is long
// enough for the name to reach everyone over the edges of the rounds between. Wrong messages that come before
// that round ask for nothing more.
//
// Slots: 2 holds x̂_i, 3 the sum over neighbours. Synchronous; rows and columns of W sum to 1.
#include <algorithm>
#include <cmath>

#include "gossip.h"
#include "method.h"
#include "modulo.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

constexpr Slot kRounded = 2, kSum = 3;

class Moniqua final : public Gossip {
 public:
  /// A round to hear of what was wrong, one to begin telling, then in each period one peer more knows.
  explicit Moniqua(ExchangeHost& host)
      : Gossip(host), delay_(2 + host.plan().schedule.peers() * host.plan().schedule.period()) {}

  std::optional<bool> decodes(const Message& m) const override {
    return m.payload->size() ==
               modulo_payload_bytes(m.entries, static_cast<int>(kModuloBits.of(host_.plan().exchange))) &&
           read_modulo_header(m.payload).doubles_at <= m.round + delay_;
  }

  void begin_round(Gradient& gradient) override {
    if (doubles_at_ != 0 && gradient.round >= doubles_at_) {
      ++doublings_;
      doubled_at_ = doubles_at_;
      doubles_at_ = 0;
    }
    Gossip::begin_round(gradient);
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override { return own_step(round, parcel); }

  void on_encoded(const Encoded& e) override {
    if (e.tag != kModuloOverflow) return Gossip::on_encoded(e);
    host_.count_left_out();
    if (e.round >= doubled_at_) double_at(e.round + delay_);
  }

  void archive(Archive archive) override {
    Gossip::archive(archive);
    archive.value("doublings", doublings_);
    archive.value("doubles_at", doubles_at_);
    archive.value("doubled_at", doubled_at_);
  }

 private:
  std::vector<Op> offer(Round round, ParcelId parcel) const override {
    const Range r = range(parcel);
    return {op::Combine{r, kSum, 0, {}},
            op::Extended{op::ModuloEncode{r, kParameters, kRounded, doublings_, doubles_at_, round, parcel}}};
  }

  void double_at(Round round) { doubles_at_ = doubles_at_ == 0 ? round : std::min(doubles_at_, round); }

  void mix(Round round, ParcelId parcel) override {
    if (idle(round)) return;
    const Range r = range(parcel);
    for (const auto& e : weights(round).in(host_.plan().self)) {
      const Payload payload = take(e.peer, inbox(e.peer, parcel)).payload;
      if (const Round named = read_modulo_header(payload).doubles_at; named > doubled_at_) double_at(named);
      host_.submit(op::Extended{
          op::ModuloDecodeAdd{r, kParameters, kRounded, kSum, e.weight, doublings_, payload, round, parcel}});
    }
    host_.submit(with_step(round, {r, kParameters, 1, {{static_cast<float>(host_.plan().gamma), kSum}}}));
  }

  const Round delay_;
  std::uint64_t doublings_ = 0;
  Round doubles_at_ = 0;  ///< agreed on for later; 0: nothing is
  Round doubled_at_ = 0;  ///< the last round in which B was doubled
};

/// One bit moves x by up to half a cell, so that it must move slowly.
double gamma_of_bits(const ExchangeSettings& exchange, double) {
  return std::min(1.0, std::ldexp(1.0, static_cast<int>(kModuloBits.of(exchange)) - 4));
}

double residue_bytes(const ExchangeSettings& exchange, std::size_t entries) {
  return static_cast<double>(modulo_payload_bytes(entries, static_cast<int>(kModuloBits.of(exchange))));
}

Buffers moniqua_buffers(const Plan& plan) {
  return {.slots = 2, .models = {}, .extension = [=](const ExtensionInputs& inputs) {
            return std::make_unique<Modulo>(plan.seed, static_cast<int>(kModuloBits.of(plan.exchange)),
                                            kModuloBound.of(plan.exchange), inputs.rate, plan.planted);
          }};
}

std::unique_ptr<Exchange> make_moniqua(ExchangeHost& host) { return std::make_unique<Moniqua>(host); }

constexpr double kDrawnBits[] = {1, 2, 4, 8}, kDrawnBounds[] = {0.001, 0.03, 0.2, 1};
constexpr OwnKey kMoniquaKeys[] = {
    {.value = kModuloBits,
     .help = "of each parameter that is sent",
     .unit = "bits",
     .low = 1,
     .high = 8,
     .drawn = kDrawnBits},
    {.value = kModuloBound,
     .help = "cell that parameters are sent modulo, over twice what neighbours "
             "differ by; doubled where too small, never halved: neighbours come as near to each "
             "other as modulo_bound / 2^modulo_bits, so begin with a small one",
     .low = 0,
     .open_low = true,
     .drawn = kDrawnBounds}};

}  // namespace

constinit const Method kMoniquaMethod{
    .row = {"moniqua",
            "compressed gossip of exchange.modulo_bits bits with no memory (Moniqua); the graph may vary"},
    .needs = {.weights = Needs::Weights::doubly_stochastic,
              .code = Needs::Code::exact,
              .may_be_stale = false,
              .gamma = Needs::Gamma::own,
              .reads = "gamma local_steps overlap",
              .why_weights = kMeanDrifts,
              .why_code =
                  "has a code of its own, exchange.modulo_bits of each parameter modulo "
                  "exchange.modulo_bound; use codec 'dense', or method 'choco' or 'deep_squeeze' for others",
              .why_synchronous = kLockstep},
    .make = make_moniqua,
    .buffers = moniqua_buffers,
    .pattern = Pattern{.mixing = Pattern::Mixing::estimates, .bytes = residue_bytes},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels, .own = MethodInvariants::Own::residues},
    .own_gamma = gamma_of_bits,
    .idle_rounds = true,
    .usual_local_steps = 1,
    .keys = kMoniquaKeys,
    .swarm_rounds = 40};

}  // namespace gossamer::node
