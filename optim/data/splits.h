#pragma once
// Factories of the splits, and what they share.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/optim/data.h"
#include "pass_sampler.h"
#include "rendezvous.h"

namespace gossamer::optim {

using Shards = Rendezvous::Shards;

/// What every split is made from; checked: all batches ≥ 1, rows ≥ peers.
struct SplitInput {
  std::uint64_t seed;
  std::vector<std::size_t> batches;
  std::shared_ptr<const Dataset> data;
  double alpha;                               ///< dirichlet only
  std::shared_ptr<const Rendezvous> among{};  ///< null: all homes are there
  bool stays = false;
  std::size_t rows = data->rows();   ///< that are dealt
  std::vector<std::uint64_t> ids{};  ///< by peer, in what is drawn for it; none: its number

  std::size_t peers() const { return batches.size(); }
  std::uint64_t id(std::size_t peer) const { return ids.empty() ? peer : ids[peer]; }
  std::size_t total_batch() const;      ///< Σ batches
  std::size_t steps_per_epoch() const;  ///< floor(rows / Σ batches), at least 1
  /// Of all homes.
  SplitInput at_home() const;
};

/// One way of dealing, done; hands out the peers' samplers.
class Deal {
 public:
  virtual ~Deal() = default;
  virtual std::unique_ptr<PassSampler> sampler(std::size_t peer) const = 0;
};

std::unique_ptr<Deal> make_local_shuffle(SplitInput in);
std::unique_ptr<Deal> make_with_replacement(SplitInput in);
std::unique_ptr<Deal> make_global_shuffle(SplitInput in);
std::unique_ptr<Deal> make_dirichlet(SplitInput in);
/// A draw of the peers' shares of one class, which sum to 1.
std::vector<double> dirichlet_shares(double alpha, std::span<const std::size_t> batches, std::uint64_t key);

/// Of a peer that no rows were dealt to, where they stay with their peers; throws OptimError.
[[noreturn]] void refuse_to_stay(const std::string& name);

/// Shards of the homes become the peers'; in.rows is what they hold together. even: as Rendezvous::deal.
Shards among_peers(SplitInput& in, Shards homes, bool even);

/// Passes over fixed shards: every pass of peer p reads pass_lengths[p] rows of a new permutation of
/// shards[p].
std::unique_ptr<Deal> make_shards(SplitInput in, Shards shards, std::vector<std::size_t> pass_lengths);

}  // namespace gossamer::optim
