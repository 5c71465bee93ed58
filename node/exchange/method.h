#pragma once
// The table of exchange methods says what each is, what it needs, and why.
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "exchange.h"

namespace gossamer::node {

/// What a method is sound with. The texts are reasons, and what to use instead; they end sentences that name
/// the method and what was found.
struct Needs {
  enum class Graph { any, complete, ring_or_complete, tree, halving, one_mean } graph = Graph::any;
  enum class Weights { any, doubly_stochastic, symmetric } weights = Weights::any;
  enum class Code { any, exact, unbiased, contractive, feedback, topk, averaged, faithful } code = Code::any;
  std::optional<Code> code_of_mean{};  ///< in code's place where all peers have one mean (outer.h)
  /// Vectors to which an aggregation rule may be applied in place of the weighted sum.
  enum class Rules { none, gradients, parameters } rules = Rules::none;
  bool may_vary = true;  ///< the graph in time
  bool may_be_stale = true;
  bool may_wait = true;    ///< staleness may be bounded
  bool may_lose = false;   ///< messages, under exchange.delivery = "best_effort"
  bool plain_sgd = false;  ///< the optimiser keeps no state of its own
  /// What exchange.gamma goes by where it is left open (consensus_step.h); own: the method says (plan.cpp).
  enum class Gamma { none, own, differences, parameters } gamma = Gamma::none;
  bool codes_gradients = false;  ///< sums encoded gradients before the step
  bool keeps_apart = false;      ///< nothing draws the peers' models together
  bool heterogeneous = false;    ///< peers' models may have hidden sizes of their own
  bool classifier = false;       ///< the model gives class probabilities
  /// Which vectors a round may go on without (exchange.backup): those that late ones supersede, or add to.
  enum class Partial { no, parameters, gradients } partial = Partial::no;
  /// Keys of [exchange] that make a difference to it, of those that no method but such as name them reads;
  /// without "exchange.", blanks between them. Given to another method they are refused.
  const char* reads = "";
  bool outer = false;  ///< takes exchange.fragments and exchange.outer_delay
  const char *why_graph = "", *why_weights = "", *why_static = "", *why_code = "", *why_code_of_mean = "",
             *why_synchronous = "", *why_unbounded = "";
};

struct Method {
  optim::NamedHelp row;
  Needs needs;
  std::unique_ptr<Exchange> (*make)(ExchangeHost&);
};

std::span<const Method> methods();
/// Whether a key of [exchange] makes a difference to the method, as far as Needs::reads tells; also for what
/// is no method's own.
bool reads(const Method& method, std::string_view key);
/// Throws ConfigError for an unknown name.
const Method& find_method(std::string_view name);

/// The table of `gossamer help method NAME`.
std::string method_text(const Method& method);

}  // namespace gossamer::node
