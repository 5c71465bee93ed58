// What goes with an optimiser that goes on in the direction that the model really took, what others made of
// it included (quasi_global). Mixing that is wrong by a part of itself, or comes out of turn, is taken for
// such a direction, and grows.
#include <fmt/format.h>

#include "method.h"
#include "soundness.h"

namespace gossamer::node {
namespace {

/// Of a message, what is to be sure to be taken in. On a ring of four, 80 epochs of a softmax: with
/// intq:bits=2 (0.44) and onebit_scaled (0.19) peers stay as near to each other as with momentum, with onebit
/// and onebit_two, which promise nothing, and with randk and topk they go apart. An MLP on a full graph of 8:
/// with onebit_scaled, too, but not with bound=0.8 (0.36), nor intq:bits=2.
constexpr double kLeastPromised = 0.3;

}  // namespace

void check_direction(const Method& method, const Job& job, const Plan& plan) {
  const std::string& kind = job.optimizer.kind;
  const ExchangeSettings& e = job.exchange;
  if (optim::optimizer_traits(kind).of_gradients_alone) return;
  const auto refuse = [&](const char* instead, const std::string& what) {
    throw ConfigError(fmt::format("{}: method '{}' {}; use optimizer.kind 'momentum', or {}", job.path,
                                  method.row.name, what, instead));
  };
  const bool carries_mass = method.invariants.own == MethodInvariants::Own::mass;
  if (carries_mass && job.least_peers() < job.peers.size())
    refuse("run.min_peers = 0",
           fmt::format(
               "with optimizer '{0}' needs run.min_peers = 0, found {1}: a peer that is lost takes "
               "weight along, with less of which every step goes further than it says, and '{0}' goes on "
               "in the direction that was really taken, so that it grows without an end",
               kind, job.run.min_peers));
  if (method.needs.outer && plan.outer_momentum > 0)
    refuse(
        "exchange.outer_momentum = 0",
        fmt::format("takes outer steps with a momentum of their own, and optimizer '{}' would take these for "
                    "its own direction, so that each multiplies the other's",
                    kind));
  const bool follows_a_share =
      method.needs.gamma == Needs::Gamma::differences || method.needs.gamma == Needs::Gamma::parameters;
  if (follows_a_share && (plan.codec.sparse || plan.codec.promised < kLeastPromised))
    refuse(
        "codec 'intq:bits=2' or 'qsgd:bits=4,norm=max'",
        fmt::format("with optimizer '{}' needs a codec that takes in a share of every vector for sure, and "
                    "'{}' leaves out more: the optimiser goes on in the direction that the mixing took, its "
                    "errors included, and drives peers apart",
                    kind, e.codec));
  // Rounds that close early take what is late for no direction that grows: each message is mixed once.
  if (e.staleness != 0u && !closes_early(e) && !method.needs.keeps_apart)
    refuse(
        method.needs.may_wait ? "exchange.staleness = 0" : "method 'dpsgd'",
        fmt::format("with optimizer '{}' needs synchronous rounds (exchange.staleness = 0), found {}: the "
                    "optimiser takes what mixing with older models made of the model for its own direction, "
                    "and drives peers apart",
                    kind, e.staleness ? std::to_string(*e.staleness) : "\"unbounded\""));
}

}  // namespace gossamer::node
