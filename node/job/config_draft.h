#pragma once
// draft_of goes from a job back to what would have been written.
#include <cstdint>

#include "config_keys.h"

namespace gossamer::node::config {

/// The i-th of the peers that `peers = N` makes.
PeerEntry local_peer(const Job& job, std::uint64_t i);

/// As it would have been written; print_keys says what shared_only leaves out.
Draft draft_of(const Job& job, bool shared_only);

}  // namespace gossamer::node::config
