#pragma once
// peer_weight tells how much a peer counts in the mean that mixing keeps (exchange.aggregate).
#include "gossamer/node/job.h"

namespace gossamer::node {

/// What one peer brings, above 0: its rows a step; or under aggregate = "throughput" its stated samples/s.
/// Throws ConfigError where the job does not state them.
double peer_weight(const Job& job, const PeerEntry& peer);

}  // namespace gossamer::node
