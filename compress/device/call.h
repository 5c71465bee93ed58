#pragma once
// What every call on the device starts with.
#include <cstddef>
#include <cstdint>

#include "gossamer/compress/device.h"
#include "wire.h"

namespace gossamer::compress::cuda {

/// The first bytes of a payload, up to where its length or numbers depend on the vector's contents: known on
/// the host from spec and n, and handed to kernels by value.
struct Front {
  static constexpr std::size_t kMax = 40;
  std::uint8_t bytes[kMax];
  std::uint32_t size;
};

/// Header, and what `more` writes behind it.
template <class More>
Front make_front(wire::CodecId id, std::size_t n, const More& more) {
  Front front{};
  wire::Writer writer(std::as_writable_bytes(std::span(front.bytes)));
  writer.header(id, n);
  more(writer);
  front.size = static_cast<std::uint32_t>(writer.size());
  return front;
}
inline Front make_front(wire::CodecId id, std::size_t n) {
  return make_front(id, n, [](wire::Writer&) {});
}

/// Sets the result to success with `bytes`, and writes the front. zero_dev, where not null, is a word that
/// becomes 0.
void begin_encode(const Front& front, std::size_t bytes, const EncodeCall& call,
                  std::uint32_t* zero_dev = nullptr);

/// Sets the result: success where the payload has exactly `expected` bytes and this front.
struct DecodeCall {
  const std::byte* payload_dev;
  std::size_t bytes;
  float weight;
  float* acc_dev;
  std::size_t n;
  void* workspace_dev;
  DeviceResult* result_dev;
  void* stream;
};
void begin_decode(const Front& front, std::size_t expected, const DecodeCall& call);
/// The same where the length follows from the payload: at least `least` bytes.
void begin_decode_at_least(const Front& front, std::size_t least, const DecodeCall& call);
/// Sets the result to failure: this codec sends no vectors of so many entries.
void refuse_decode(const DecodeCall& call);

/// Throws std::runtime_error where kernels could not be started.
void require_started(const char* doing);

}  // namespace gossamer::compress::cuda
