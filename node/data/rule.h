#pragma once
// Rule applies the job's aggregation rule in one peer's data plane.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "aligned.h"
#include "data_plane.h"
#include "gossamer/compress/codec.h"
#include "gossamer/optim/aggregate.h"

namespace gossamer::node {

/// Holds the rule for each size of neighbourhood that came, and scratch memory for one neighbourhood's
/// decoded vectors and the result: n + 1 times the floats of the ranges.
class Rule {
 public:
  explicit Rule(std::string spec) : spec_(std::move(spec)) {}
  /// at: of op.dst, the same memory each time. A vector that does not decode, or is not finite, is left out,
  /// and the rule is to bear one less; where there are more than it bears, they count as zeros.
  void run(const op::Aggregate& op, const std::function<std::span<float>(Range)>& at,
           compress::Threads* threads);

 private:
  optim::Aggregator& of(std::size_t n, std::size_t left_out);
  std::string spec_;
  /// By size of the neighbourhood, and how many of it are left out.
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<optim::Aggregator>> rules_;
  AlignedFloats decoded_;
};

}  // namespace gossamer::node
