#pragma once
// What the aggregation rules share.
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/aggregate.h"

namespace gossamer::optim {

struct AggregatorParameters {
  std::size_t f = 0;       ///< vectors that may be anything
  std::size_t keep = 0;    ///< multi_krum: vectors that are averaged; 0 = n − f − 2
  std::size_t rounds = 0;  ///< iterations; 0 = the rule's own number
  double radius = 0;       ///< clipping; 0 = from the distances
};

using AggregatorFactory = std::unique_ptr<Aggregator> (*)(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_weighted(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_vote(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_median(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_trimmed_mean(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_krum(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_multi_krum(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_geometric_median(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_centered_clip(const AggregatorParameters&, std::size_t n);
std::unique_ptr<Aggregator> make_self_clip(const AggregatorParameters&, std::size_t n);
/// `inner` of the vectors, each replaced by the mean of its n − f nearest.
std::unique_ptr<Aggregator> make_nearest_mixing(std::unique_ptr<Aggregator> inner, std::size_t f);

/// ‖a − b‖₂², in double and eight lanes.
double squared_distance(std::span<const float> a, std::span<const float> b);
/// (a − origin)·(b − origin), in double and eight lanes.
double inner_product(std::span<const float> a, std::span<const float> b, std::span<const float> origin);
/// n×n squared distances, row-major.
std::vector<double> all_distances(std::span<const std::span<const float>> vectors);
/// out ← Σ weight_i · vector_i, added in order.
void weighted_sum(std::span<const std::span<const float>> vectors, std::span<const float> weights,
                  std::span<float> out);

}  // namespace gossamer::optim
