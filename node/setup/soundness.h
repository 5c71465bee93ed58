#pragma once
// These checks tell whether a job's method, graph, codec, rule and staleness go together.
#include "exchange.h"
#include "gossamer/node/job.h"
#include "method.h"

namespace gossamer::node {

/// Throws ConfigError, beginning with the job's path, where the plan is not what the method needs. schedule:
/// before weights by samples and local steps.
void check_method(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule);

/// Throws ConfigError where the optimiser goes on in the direction that the model really took, and the job's
/// mixing would be taken for one.
void check_direction(const Method& method, const Job& job, const Plan& plan);

/// Whether a full reduce codes the optimiser's velocity in the gradient's place (full_reduce.h): under biased
/// codecs that send every entry and leave much of each out. Averages of sparse codes are not helped: an entry
/// that was sent would be sent again and again.
bool codes_velocity(const Job& job, const compress::Traits& codec);

/// Throws ConfigError where a key of sparse gradients (momentum correction, clipping, densities) stands in a
/// job whose method and codec have no use for it.
void check_sparse_gradients(const Job& job, const Plan& plan);

/// Gives the keys that the method, with its codec, does not read their defaults: for who puts another method
/// into a job.
void drop_unread(ExchangeSettings& exchange);

/// Throws ConfigError where the rule does not go with the method, codec or staleness, or cannot tolerate its
/// f Byzantine peers in every neighbourhood; names the first peer where it cannot. schedule: before local
/// steps.
void check_rule(const Method& method, const Job& job, const Plan& plan, const topology::Schedule& schedule);

}  // namespace gossamer::node
