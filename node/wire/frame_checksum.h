#pragma once
// What a frame's checksum is made of.
#include <cstdint>

#include "ids.h"
#include "wire.capnp.h"

namespace gossamer::node {

/// Of a parcel's payload, which may stand beside it; 0 elsewhere.
std::uint64_t payload_hash(wire::Frame::Reader f, const Payload& beside = {});

/// Over every field but the checksum itself; scalars first, then the blobs, each seeded by what came before.
/// Of a parcel's payload the hash stands for it, which whoever sends or takes it needs as well.
std::uint64_t checksum(wire::Frame::Reader f, std::uint64_t payload);

}  // namespace gossamer::node
