#pragma once
// Factories of the splits, and what they share.
#include <memory>
#include <string_view>
#include <vector>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

/// What every split is made from; checked: peer < batches.size(), all batches ≥ 1, rows ≥ peers.
struct SplitInput {
  std::uint64_t seed;
  const std::vector<std::size_t>& batches;
  const Dataset& data;
  std::size_t peer;
  double alpha;  ///< dirichlet only

  std::size_t batch() const { return batches[peer]; }
  std::size_t total_batch() const;      ///< Σ batches
  std::size_t steps_per_epoch() const;  ///< floor(rows / Σ batches), at least 1
};

std::unique_ptr<Sampler> make_local_shuffle(const SplitInput& in);
std::unique_ptr<Sampler> make_with_replacement(const SplitInput& in);
std::unique_ptr<Sampler> make_global_shuffle(const SplitInput& in);
std::unique_ptr<Sampler> make_dirichlet(const SplitInput& in);

/// Passes over a fixed shard: every pass reads `pass_length` rows of a new permutation of the shard.
std::unique_ptr<Sampler> make_shard_sampler(const SplitInput& in, std::vector<std::uint32_t> shard,
                                            std::size_t pass_length);

}  // namespace gossamer::optim
