#pragma once
// Which rounds all peers of a run have, which to keep, and which is the best.
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint.h"

namespace gossamer::node {

/// A round of which each peer of a run has a checkpoint.
struct CompleteRound {
  Round round = 0;
  std::uint64_t run = 0;
  std::vector<CheckpointEntry> entries;  ///< by peer, in the job's order
};

/// Of all peers but those. Rounds ascend; of one round the runs do. Goes by what the manifests say: whether
/// the files are whole says CheckpointFolder::damage.
std::vector<CompleteRound> complete_rounds(std::span<const CheckpointEntry> entries,
                                           std::span<const std::string> but = {});

/// Whether a is better than b by the first of these that both have: accuracy, auc (the higher the better),
/// loss, log_loss (the lower). False where they share none, or one is NaN.
bool better(const optim::Figures& a, const optim::Figures& b);
/// Of each name the mean over the entries that have it: it may be the first peer alone that evaluates.
optim::Figures mean_figures(std::span<const CheckpointEntry> entries);
/// Its index; of equal ones the newest. Empty where none has figures.
std::optional<std::size_t> best_of(std::span<const CompleteRound> rounds);

}  // namespace gossamer::node
