#pragma once
// What dense, fp16 and bf16 share: a payload of header, with fp16 2 bytes k, n values.
#include <span>

#include "float_kernels.h"
#include "wire.h"

namespace gossamer::compress {

/// Bytes that n entries need at most.
constexpr std::size_t float_bytes(FloatFormat format, std::size_t n) {
  return wire::kHeaderMax + (format == FloatFormat::fp16 ? 2 : 0) + bytes_of(format) * n;
}
/// Encodes g, or g + e where a state is given. One pass over memory, but where fp16 needs k ≠ 0.
std::size_t encode_floats(FloatFormat format, wire::CodecId id, std::span<const float> g,
                          FeedbackState* state, Workspace& workspace, std::span<std::byte> out);
/// What is behind the header.
void decode_floats(FloatFormat format, wire::Reader& in, float weight, std::span<float> acc,
                   Threads* threads);

}  // namespace gossamer::compress
