#pragma once
// These types number the parts of a run and hold the bytes that peers exchange.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::node {

using topology::PeerId;
using ParcelId = std::uint32_t;
using Round = std::uint64_t;

/// Floats [begin, begin + size) of a slot.
struct Range {
  std::size_t begin = 0, size = 0;
};

/// Encoded bytes, shared between links and never changed after they are made.
using Payload = std::shared_ptr<const std::vector<std::byte>>;

}  // namespace gossamer::node
