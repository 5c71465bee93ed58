#pragma once
// Slots of gradient tracking that a checker looks at.
#include <utility>
#include <vector>

#include "data_plane.h"

namespace gossamer::node {

constexpr Slot kTrackerSlot = 2, kTrackedSlot = 3;  ///< y; the gradient of the last round
/// Of the op that ends the mixing of a tracker.
inline const std::vector<std::pair<float, Slot>> kTrackerMixed{{1.0f, 5}};

}  // namespace gossamer::node
