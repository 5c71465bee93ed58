#pragma once
// A Meeting is what becomes of the models of members that were parted and come together in a view. Each says
// which view it entered last, and how many rounds of every peer's samples its model holds, trained itself
// or come by way of others. Who entered one view is of one side. What one side of a parted network holds
// that another lacks is what it has seen since; by that their models are weighed. So the weights are right in
// whatever order sides fall apart and meet, and nothing counts twice.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planted.h"

namespace gossamer::node {

/// Rounds of samples that a model holds, by peers; empty: that is not known.
using Trained = std::vector<std::uint64_t>;

/// What a member says of its model.
struct Past {
  std::uint64_t last = 0;  ///< the view that it entered last
  Trained trained{};       ///< of the same peers at all members
};

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

/// Rounds that the second model holds and the first one lacks, over all peers; differences up to `least`
/// rounds are what is under way, and none.
double lacking(std::span<const std::uint64_t> holds, std::span<const std::uint64_t> other,
               std::uint64_t least);

/// all: by seat. Sides that differ by what is under way are one. They are numbered by their first seats, and
/// folded in that order.
Meeting meeting_of(const std::vector<Past>& all, std::uint64_t least, Planted planted = {});

}  // namespace gossamer::node
