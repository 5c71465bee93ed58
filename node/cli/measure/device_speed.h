#pragma once
// How fast codecs are on a CUDA device, and what its memory allows.
#include <span>
#include <string>

#include "codec_speed.h"

namespace gossamer::node {

/// Makes "cuda:N" the device in use. Throws std::runtime_error: no such device, or no device at all.
void use_device_named(const std::string& device);

/// Of the device in use, with vectors and payloads in its memory; work is submitted until it takes long
/// enough, and then waited for. bytes_per_entry is the payload's; decode is into zeros. Throws CodecError
/// where the codec runs on the host only.
CodecSpeed measure_device_codec(const compress::Codec& codec, std::span<const float> x);

/// From what copying reads and writes.
MemoryLimits measure_device_memory(std::size_t entries);

}  // namespace gossamer::node
