#pragma once
// The emulated device's streams. Work waits in them until somebody waits for it, or until it is drawn: which
// stream does its next piece when is drawn from the seed, so that work that no stream, event or wait puts in
// order comes in a wrong one for some seed.
#include <atomic>
#include <cstdint>

#include "cuda_runtime.h"

namespace gossamer::emulated {

/// Draws the order of streams from now on.
void seed_streams(std::uint64_t seed);
/// Until all work of all streams is done.
void drain_streams();

/// Of a stream that is captured: then nothing may allocate or wait.
bool captures();
/// Some work has failed, and all that comes then.
bool has_failed();
cudaError_t unless_failed();
cudaError_t unless_captured();

}  // namespace gossamer::emulated
