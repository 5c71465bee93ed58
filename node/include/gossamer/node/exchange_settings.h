#pragma once
// ExchangeSettings are the keys of [exchange], checked and with their defaults.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gossamer::node {

/// By what codec each layer of a model is encoded, and when.
struct CodecSettings {
  std::string codec = "onebit_scaled";  ///< canonical spec after loading
  /// Entries; smaller layers go dense under codecs of several bits and sparse ones.
  std::size_t dense_below = 10000;
  std::uint64_t dense_rounds = 0;  ///< rounds at the start in which everything goes dense
  /// Densities of the first epochs; an empty optional: 0.25, 0.0625 …
  std::optional<std::vector<double>> density_warmup = std::vector<double>{};
  std::vector<std::pair<std::string, double>> layer_density;  ///< layer or its front followed by '*', density
};

struct ExchangeSettings : CodecSettings {
  std::string method = "choco";
  std::optional<std::uint64_t> staleness = 0;  ///< rounds; empty = unbounded
  std::size_t backup = 0;                      ///< messages of a round that it does not wait for; 0 = none
  /// What is done about who takes longer than its neighbours do: "wait" for it, go on "without" it, or let it
  /// take "fewer" of its local steps; longer: than median + straggler_k · MAD.
  std::string straggler = "wait";
  double straggler_k = 6;
  std::optional<double> gamma;         ///< consensus step of choco; empty = the codec's default
  std::string algorithm = "auto";      ///< allreduce, dense: ring, halving_doubling, or the cheaper
  std::string aggregate = "weighted";  ///< weighted (mixing matrix), samples, or a rule's spec
  std::string delivery = "reliable";   ///< reliable (lost frames are resent) or best_effort
  /// Rounds from one exchange to the next; empty = as many as the method usually takes.
  std::optional<std::uint64_t> local_steps;
  std::optional<double> outer_rate, outer_momentum;  ///< of outer steps; empty = the method's default
  bool overlap = false;         ///< gossip: what is sent leaves before the gradient is computed
  std::size_t fragments = 1;    ///< groups of parcels that are exchanged at their own times
  std::size_t outer_delay = 0;  ///< rounds from an exchange to the use of its result
  /// Of keys that belong to single methods, by name without "exchange."; those that are not here have their
  /// defaults.
  std::map<std::string, std::variant<bool, std::uint64_t, double>, std::less<>> own;
  std::size_t parcel = 4u << 20;  ///< largest parcel, entries; larger layers are sliced
  // Sparse gradients under error feedback (deep gradient compression, Lin et al. 2018).
  double momentum_correction = 0;  ///< momentum before the selection; 0 = none
  double clip = 0;  ///< a layer's gradient, by its share of the sum, to clip/√P in l2 norm; 0 = none
};

}  // namespace gossamer::node
