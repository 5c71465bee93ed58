#pragma once
// Where a peer of a real run computes, and its replica there.
#include <memory>
#include <optional>
#include <string>

#include "replica_base.h"
#include "setup.h"

namespace gossamer::node {

/// What peer.device comes to.
struct ChosenDevice {
  std::optional<int> cuda;  ///< number of a CUDA device; none: the host
  std::string told;         ///< for whoever started the peer; empty: nothing that the file does not say
};
/// "auto" gives this machine's peers that say so the devices in turn, one that joins, and knows of no others,
/// one by its name; where that has no room the next, and the host where there is none or the job needs it.
/// Throws ConfigError where a device is asked for in words and either is so.
ChosenDevice choose_device(const Prepared& prepared, PeerId self, bool joins);

/// With an objective that reads ahead. spare: memory for it. Throws ConfigError where the device cannot hold
/// it.
std::unique_ptr<ReplicaBase> make_live_replica(const Prepared& prepared, PeerId self,
                                               const ChosenDevice& device,
                                               std::shared_ptr<optim::DataCourse> course,
                                               std::uint64_t first_step, std::size_t threads,
                                               SpareFloats spare = {});

}  // namespace gossamer::node
