#pragma once
// Factories of the splits, and what they share.
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

/// What every split is made from; checked: all batches ≥ 1, rows ≥ peers.
struct SplitInput {
  std::uint64_t seed;
  std::vector<std::size_t> batches;
  std::shared_ptr<const Dataset> data;
  double alpha;  ///< dirichlet only

  std::size_t total_batch() const;      ///< Σ batches
  std::size_t steps_per_epoch() const;  ///< floor(rows / Σ batches), at least 1
};

/// One way of dealing, done; hands out the peers' samplers.
class Deal {
 public:
  virtual ~Deal() = default;
  virtual std::unique_ptr<Sampler> sampler(std::size_t peer) const = 0;
};

std::unique_ptr<Deal> make_local_shuffle(SplitInput in);
std::unique_ptr<Deal> make_with_replacement(SplitInput in);
std::unique_ptr<Deal> make_global_shuffle(SplitInput in);
std::unique_ptr<Deal> make_dirichlet(SplitInput in);
/// A draw of the peers' shares of one class, which sum to 1.
std::vector<double> dirichlet_shares(double alpha, std::span<const std::size_t> batches, std::uint64_t key);

/// Passes over fixed shards: every pass of peer p reads pass_lengths[p] rows of a new permutation of
/// shards[p].
std::unique_ptr<Deal> make_shards(SplitInput in, std::vector<std::vector<std::uint32_t>> shards,
                                  std::vector<std::size_t> pass_lengths);

}  // namespace gossamer::optim
