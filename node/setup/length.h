#pragma once
// How the data are dealt to the peers of a run, and how long it is by that.
#include "setup.h"

namespace gossamer::node {

/// The rows dealt to the job's peers.
std::shared_ptr<const optim::Split> deal(const Prepared& prepared);

/// Rounds per epoch, rounds, samples of all, and the optimiser's length. steps_per_epoch: of a peer. Throws
/// ConfigError.
void set_length(Prepared& prepared, std::uint64_t steps_per_epoch);

/// Throws ConfigError where the run is over before its peers first exchange.
void check_exchanges(const Prepared& prepared);

}  // namespace gossamer::node
