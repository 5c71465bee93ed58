#pragma once
// make_plan turns a job into the plan that its exchange method follows.
#include <string>
#include <utility>
#include <vector>

#include "exchange.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// Throws ConfigError where method, graph, codec and staleness do not go together, with the reason and the
/// nearest sound choice. Also resolves gamma and the weights. `parcels` are filled in by the caller.
Plan make_plan(const Job& job, PeerId self);

/// Links between two peers that can only dial out, in whichever round: there is no connection for them.
std::vector<std::pair<PeerId, PeerId>> links_out_of_reach(const Job& job, const topology::Schedule& schedule);

/// A line that warns where exchange.gamma is stated and beyond what was found stable; empty otherwise.
std::string gamma_warning(const Job& job, const Plan& plan);

}  // namespace gossamer::node
