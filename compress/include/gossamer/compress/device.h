#pragma once
// Codecs on a CUDA device: the payload bytes are the CPU's, and either side decodes what the other made.
//
// Pointers named _dev are device memory. Every call is asynchronous on its stream (a cudaStream_t, 0 =
// default), allocates nothing, waits for nothing and reads nothing back: what it starts follows from the
// spec, n and the pointers alone, so that a stream can be captured into a graph and the graph run again on
// new contents (of the vector, the key, the payload). What went wrong is found in the result, which the host
// reads when it has waited for the stream and before it sends anything. In a build without CUDA
// make_device_codec throws std::runtime_error saying so.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gossamer/compress/codec.h"

namespace gossamer::compress::cuda {

enum class DeviceError : std::uint32_t {
  none,
  not_finite,  ///< encode: first_bad is the index of the first NaN or Inf of the vector
  overflow,    ///< encode: a norm or a scaled value is beyond float's range; first_bad is where
  size,        ///< decode: more or fewer bytes than this payload must have
  front,       ///< decode: not a payload of this codec, with these parameters and n entries
  number,      ///< decode: a scale or value that cannot stand there (NaN, Inf, a wrong sign …)
  unused,      ///< decode: bits or fields that nothing made
  index,       ///< decode: an index past the last entry
};

/// What one call left, in device memory.
struct DeviceResult {
  unsigned long long bytes;      ///< encode: of the payload; good only where error is none
  unsigned long long first_bad;  ///< index of the first entry that encode refuses; ~0: none
  DeviceError error;             ///< of several, any one
};

/// Throws the EncodeError or PayloadError that stands in a result, read back for a vector of n entries.
void require_success(const DeviceResult& result, std::size_t n);

/// Device memory of one encode. out_dev and workspace_dev are 16-byte aligned.
struct EncodeCall {
  const RandomKey* key_dev;  ///< read by the device when the work runs
  void* workspace_dev;       ///< workspace_bytes(n), of any contents
  std::byte* out_dev;        ///< max_bytes(n)
  DeviceResult* result_dev;
  void* stream;
  /// Of topk, whose select=reuse reads it: read and written where not null (Codec::encode_selecting). A
  /// layer's.
  SelectionState* selection_dev = nullptr;
};

/// MomentumState of n entries in device memory, zeros at first; next_… may be the same arrays, as in
/// encode_feedback.
struct DeviceMomentum {
  const float* velocity_dev;
  const float* unsent_dev;
  float* next_velocity_dev;
  float* next_unsent_dev;
};

/// Immutable; all memory is the caller's. Thread-safe.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  virtual std::string spec() const = 0;
  virtual std::size_t max_bytes(std::size_t n) const = 0;
  /// Of encode, encode_feedback and decode_add alike. 0 is possible.
  virtual std::size_t workspace_bytes(std::size_t n) const = 0;

  /// Codec::encode. Where the vector is refused, what stands in out_dev is worth nothing.
  virtual void encode(const float* x_dev, std::size_t n, const EncodeCall& call) const = 0;
  /// Codec::encode_feedback with the residual as it is (not lazy): encodes v = g + residual and writes fl(v −
  /// decode(payload)) to next_dev, which may be residual_dev; where the two differ the old state stands on a
  /// failure, otherwise it is lost. residual_dev null: zero (−0 in every entry, to the bit). Throws
  /// CodecError where the codec may not run under feedback.
  virtual void encode_feedback(const float* g_dev, const float* residual_dev, float* next_dev, std::size_t n,
                               const EncodeCall& call) const = 0;
  /// MomentumCorrection::encode, 0 ≤ momentum < 1.
  virtual void encode_momentum(const float* g_dev, float momentum, const DeviceMomentum& state, std::size_t n,
                               const EncodeCall& call) const = 0;
  /// acc += weight · decode(payload), for a payload of this codec with these parameters; any other is
  /// refused. payload_dev is 16-byte aligned; nothing outside its `bytes` bytes is read, whatever they are.
  /// acc is unchanged or partly added to where the result says it failed.
  virtual void decode_add(const std::byte* payload_dev, std::size_t bytes, float weight, float* acc_dev,
                          std::size_t n, void* workspace_dev, DeviceResult* result_dev,
                          void* stream) const = 0;
};

/// From a spec that make_codec takes. Throws CodecError, also for what runs on the host only, saying so.
std::unique_ptr<const DeviceCodec> make_device_codec(std::string_view spec);

}  // namespace gossamer::compress::cuda
