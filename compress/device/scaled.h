#pragma once
// onebit_scaled on the device: parameters.
#include "call.h"

namespace gossamer::compress::cuda {

struct Input;

struct ScaledParameters {
  double lambda;  ///< 0: auto
  double bound;
  bool constant;
  std::size_t bucket;
};

/// Up to the number of bytes of modes.
inline Front scaled_front(std::size_t n, std::size_t bucket) {
  return make_front(wire::CodecId::onebit_scaled, n, [&](wire::Writer& writer) { writer.varint(bucket); });
}

std::size_t scaled_encoder_bytes(std::size_t n, std::size_t bucket);
void encode_scaled(const Input& input, std::size_t n, const ScaledParameters& parameters,
                   const EncodeCall& call);

}  // namespace gossamer::compress::cuda
