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

/// A line that warns where γ is so small that in as many rounds peers average next to nothing; empty
/// otherwise.
std::string mixing_warning(const Job& job, const Plan& plan, std::uint64_t rounds);

/// A line that warns where a sparse code of gradients holds so much back that momentum makes it run away;
/// empty otherwise.
std::string momentum_warning(const Job& job, const Plan& plan);

}  // namespace gossamer::node
