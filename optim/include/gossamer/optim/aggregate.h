#pragma once
// Aggregation rules: from the vectors of a neighbourhood, the peer's own among them, to one.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gossamer/optim/objective.h"

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
  /// Canonical, with every parameter: "krum:f=1,nnm=0".
  virtual std::string spec() const = 0;
  /// Whether the rule looks at each entry by itself, so that a model may be aggregated part by part with the
  /// same result.
  virtual bool by_entry() const = 0;
};

/// name and one line of help with the parameters.
std::span<const NamedHelp> aggregator_table();

/// spec: a name of the table, then parameters: "trimmed_mean:f=2", "centered_clip:f=1,nnm=1". n: the largest
/// neighbourhood, own vector included. Throws OptimError for an unknown name or parameter, and where the rule
/// cannot bear f wrong vectors among n.
std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, std::size_t n);

}  // namespace gossamer::optim
