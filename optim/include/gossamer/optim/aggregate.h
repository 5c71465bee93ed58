#pragma once
// An Aggregator makes one vector of a neighbourhood's, the peer's own among them.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

/// n vectors of one size, all finite; weights are positive and sum to 1; `self` is the peer's own vector
/// among them.
struct Neighbourhood {
  std::span<const std::span<const float>> vectors;
  std::span<const float> weights;
  std::size_t self = 0;
};

/// One rule for neighbourhoods of one size. Its scratch memory grows to the largest vector seen. One thread
/// at a time. The same bits on every machine.
class Aggregator {
 public:
  virtual ~Aggregator() = default;
  /// out ← the rule's value; out is none of the vectors. A NaN or Inf among them gives any value.
  virtual void aggregate(const Neighbourhood& from, std::span<float> out) = 0;
};

/// name and one line of help with the parameters.
std::span<const NamedHelp> aggregator_table();

/// What a spec asks for, whatever the neighbourhood.
struct AggregatorInfo {
  std::string name;         ///< of the table: "krum"
  std::string spec;         ///< canonical, with every parameter: "nnm+krum:f=1"
  std::size_t f = 0;        ///< wrong vectors that it is to bear
  bool by_entry = true;     ///< looks at each entry by itself: a model may be aggregated part by part
  bool of_signs = false;    ///< counts signs: its value is −1, 0 or 1 in each entry
  bool around_own = false;  ///< neighbours with the same vectors get different values, each near its own
};

/// spec: a name of the table, then parameters: "trimmed_mean:f=2"; with nearest-neighbour mixing in front,
/// "nnm+centered_clip:f=1". Throws OptimError for an unknown name or parameter.
AggregatorInfo describe_aggregator(std::string_view spec);

/// n: vectors of the neighbourhood, the own one included. Throws OptimError as describe_aggregator, and where
/// the rule cannot bear f wrong ones among n. left_out: how many of the n, at most f, are seen to be wrong
/// and are not given to the rule; it bears f − left_out more among the n − left_out others.
std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, std::size_t n, std::size_t left_out = 0);

}  // namespace gossamer::optim
