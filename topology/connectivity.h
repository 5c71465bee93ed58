#pragma once
// Who can reach whom.
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

/// The strongly connected components of the graph in which i sends to out[i]: the largest first (of equals
/// the one with the lowest peer), peers ascending.
std::vector<std::vector<PeerId>> strong_components(const std::vector<std::vector<PeerId>>& out);

/// The same of the union of all rounds of a period. Connected: one component.
std::vector<std::vector<PeerId>> strong_components(const Schedule& schedule);

}  // namespace gossamer::topology
