#pragma once
// PlantedClicks makes click logs whose true probabilities are known: what the best possible model would
// reach.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"

namespace gossamer::optim {

/// Sample i has one key of each field; how often a key comes falls with its rank r as r^(−power). Its click
/// has the probability σ(bias + Σ w_k + Σ_{pairs} ⟨v_k, v_l⟩), w_k ~ N(0, linear²), and v_k such that a
/// pair's product has the standard deviation `pairs`.
struct PlantedSpec {
  std::uint64_t samples = 100000;     ///< of a stream; 0: without end
  std::uint64_t first = 0;            ///< number of a stream's first sample: a test set begins elsewhere
  std::size_t fields = 12;            ///< 1 to 256
  std::uint64_t keys = 1000;          ///< of each field at a time, 1 to 2^40
  double power = 1.1;                 ///< 0: all keys are equally frequent; at most 4
  std::size_t factors = 4;            ///< of v, 1 to 16
  double linear = 0.4, pairs = 0.25;  ///< standard deviations
  double bias = -1.5;                 ///< log odds of a click where nothing else speaks
  double drift = 0;                   ///< how many times a key is replaced by a new one in 10^6 samples
  std::uint64_t seed = 1;
  std::size_t peer = 0, peers = 1;            ///< as SampleStreamSpec
  double alpha = 0;                           ///< the same
  std::vector<std::string> names{}, homes{};  ///< the same
  bool stays = false;                         ///< the same
};

/// A pure function of specification and sample number, the same on any host.
class PlantedClicks {
 public:
  /// Throws OptimError for values out of range.
  explicit PlantedClicks(const PlantedSpec& spec);
  /// keys [fields] of sample i, in the order of the fields; the true probability of its click.
  double keys(std::uint64_t i, std::span<std::uint64_t> keys) const;
  double probability(std::uint64_t i) const;
  float label(std::uint64_t i, double probability) const;  ///< drawn with it
  /// The AUC of the true probabilities over samples first ≤ i < end: no model can expect more.
  double best_auc(std::uint64_t first, std::uint64_t end) const;

 private:
  PlantedSpec spec_;
  double head_, tail_exponent_;  ///< of the inverse distribution of ranks
};

/// The samples as a stream: position is the sample's number. Same errors.
std::unique_ptr<SampleStream> open_planted(const PlantedSpec& spec);

}  // namespace gossamer::optim
