#pragma once
// RoundBytes are what the peers of a job send in a round, found by simulating some.
#include "gossamer/node/job.h"

namespace gossamer::node {

struct RoundBytes {
  double least = 0, mean = 0, most = 0;  ///< of a peer: whole frames of parcels, none of them sent twice
  std::uint64_t rounds = 0;              ///< that were counted, after as many that were not
};

/// Over a calm network, over whole cycles of the schedule and of local steps, after the density's warm-up.
/// Throws ConfigError and OptimError as prepare does, and ConfigError where a cycle would take too long.
RoundBytes bytes_per_round(Job job);

}  // namespace gossamer::node
