#pragma once
// make_plan turns a job into the plan that its exchange method follows.
#include <string>

#include "exchange.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// Throws ConfigError where method, graph, codec and staleness do not go together, with the reason and the
/// nearest sound choice. Also resolves gamma and the weights. `parcels` are filled in by the caller.
Plan make_plan(const Job& job, PeerId self);

/// A line that warns where exchange.gamma is stated and beyond what was found stable; empty otherwise.
std::string gamma_warning(const Job& job, const Plan& plan);

}  // namespace gossamer::node
