#pragma once
// allreduce_cost tells what the algorithms of a dense all-reduce cost in a job.
#include "allreduce_choice.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// By exchange.algorithm, the graph's edges and what [[link]] tables say of them (`gossamer probe` measures
/// links); 1 Gbit/s and 0.5 ms where nothing is said, so that 6 peers take the ring
/// from 34 000 entries on, and a power of two of them never.
AllreduceCost allreduce_cost(const Job& job, const topology::Schedule& schedule);

}  // namespace gossamer::node
