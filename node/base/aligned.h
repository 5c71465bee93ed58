#pragma once
// AlignedFloats are float buffers on 64-byte boundaries, as the bit contract asks.
#include <boost/align/aligned_allocator.hpp>
#include <vector>

namespace gossamer::node {

using AlignedFloats = std::vector<float, boost::alignment::aligned_allocator<float, 64>>;

}  // namespace gossamer::node
