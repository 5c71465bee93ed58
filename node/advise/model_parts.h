#pragma once
// model_parts describes a model as its messages see it: sizes, and when within a step each part may leave.
#include <functional>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"
#include "gossamer/node/job.h"
#include "gossamer/optim/model.h"
#include "gossamer/topology/cost.h"

namespace gossamer::node {

/// Layers of that many entries in all, of equal size but for rounding.
std::vector<optim::Layer> equal_layers(std::size_t entries, std::size_t count);

/// Bytes of a vector of that many normal random numbers, encoded: sparse and entropy codes have no size but
/// that of an example. Of a vector beyond a few million entries a part is encoded and the rest reckoned.
double payload_bytes(const compress::Codec& codec, std::size_t entries);

/// The parcels of a round under exchange.codec (exact: dense), the last layer first, as the gradient makes
/// them ready: after the forward pass, a third of the step, in equal shares of the rest, as the simulator has
/// it; with exchange.overlap at once.
/// payload: bytes of a message of so many entries; empty: the codec's.
std::vector<topology::Part> model_parts(const Job& job, const std::vector<optim::Layer>& layers,
                                        const std::function<double(std::size_t)>& payload = {});

/// What the wire adds to payloads.
topology::Framing wire_framing();

}  // namespace gossamer::node
