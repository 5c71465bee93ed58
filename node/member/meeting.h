#pragma once
// A Meeting is what becomes of the models of members that were parted and come together in a view. Each says
// how many rounds of every member's samples its model holds, trained itself or come by way of others. What
// one side of a parted network holds that another lacks is what it has seen since; by that their models are
// weighed. So the weights are right in whatever order sides fall apart and meet, and nothing counts twice.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planted.h"

namespace gossamer::node {

/// Rounds of samples that a model holds, by the seats of a view; empty: that is not known.
using Trained = std::vector<std::uint64_t>;

struct Meeting {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> side;  ///< by seat; kNone: what its model holds is not known
  std::vector<double> weight;     ///< by side; they add up to 1
  /// All that the models of all sides hold together.
  Trained all;

  std::vector<std::size_t> seats_of(std::size_t side) const;
  /// Whose model a member takes of another side: as many members of a side take each of another's.
  std::size_t partner(std::size_t seat, std::size_t side) const;
};

/// Rounds that the second model holds and the first one lacks, over all seats; differences up to `least`
/// rounds are what is under way, and none.
double lacking(std::span<const std::uint64_t> holds, std::span<const std::uint64_t> other,
               std::uint64_t least);

/// all: what each seat's model holds. The sides are numbered by their first seats, and folded in that order.
Meeting meeting_of(const std::vector<Trained>& all, std::uint64_t least, Planted planted = {});

}  // namespace gossamer::node
