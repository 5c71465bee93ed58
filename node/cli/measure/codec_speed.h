#pragma once
// CodecSpeed is how fast a codec is on this machine, CodecFloor how fast it could be.
#include <cstddef>
#include <span>
#include <vector>

#include "aligned.h"
#include "bandwidth.h"
#include "gossamer/compress/codec.h"
#include "timing.h"

namespace gossamer::node {

/// Entries of a Laplace distribution with mean 0 and scale 1, the shape that gradients have; the same for
/// every machine.
AlignedFloats laplacian(std::size_t entries);

/// GB/s of fp32 input; NaN where it was not measured.
struct CodecSpeed {
  double bytes_per_entry;  ///< of the payload, header included
  double encode, feedback, decode, decode_add;
  double written_lines;  ///< share of the 64-byte lines of a vector in which anything decodes to non-zero
};

/// All of x is one message, on which the team works, or this thread alone where it is null. decode is into
/// zeros, which are filled in within the time. Feedback is measured where a codec may run under it.
CodecSpeed measure_codec(const compress::Codec& codec, std::span<const float> x, compress::Threads* threads);

/// encode, decode and relative error ‖y − x‖/‖x‖ alone, on one thread; for who wants no more.
struct MessageSpeed {
  double bytes_per_entry, encode, decode, relative_error;
};
MessageSpeed measure_message(const compress::Codec& codec, std::span<const float> x);

/// The speeds of a codec that does nothing but touch, once, the memory that it must, p being the bytes of
/// payload per entry:
///   encode      reads x, writes the payload                    4 + p bytes per entry
///   feedback    reads g, reads and writes e, writes payload    12 + p
///   decode      reads the payload, writes y                    4 + p
///   decode_add  reads the payload, reads and writes each line
///               of y that something is added to                8·written_lines + p
/// at the rate at which memory does the larger part of that.
struct CodecFloor {
  double encode, feedback, decode, decode_add;
};
CodecFloor codec_floor(const CodecSpeed& speed, const MemoryLimits& limits);

}  // namespace gossamer::node
