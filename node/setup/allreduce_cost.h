#pragma once
// allreduce_cost tells what the algorithms of a dense all-reduce cost in a job.
#include "allreduce_choice.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// By exchange.algorithm, the graph's edges and what [[link]] tables say of them (`gossamer probe` measures
/// links). Where nothing is said a link has 1 Gbit/s and 0.5 ms: for a layer 6 peers then take the ring from
/// 33 000 entries on, 4 from 500 000, 8 from 2 000 000.
AllreduceCost allreduce_cost(const Job& job, const topology::Schedule& schedule);

}  // namespace gossamer::node
