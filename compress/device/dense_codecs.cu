// dense, fp16 and bf16 on the device: a body of words, of one or two entries each, that a warp writes 128 of
// at a time.
#include "half.cuh"
#include "host_codec.h"

namespace gossamer::compress::cuda {
namespace {

/// Loads in flight per lane: words of one entry each need as many to keep the memory busy.
constexpr unsigned kAhead = 4;

/// How entries become fields of a word and back. `state` is made once per thread.
struct DenseFields {
  static constexpr unsigned kPerWord = 1;
  struct State {};
  __device__ State encoder() const { return {}; }
  __device__ State decoder(const std::byte*, DeviceResult*) const { return {}; }
  __device__ static std::uint32_t field(State, float x) { return bits_of(x); }
  /// NaN or Inf where the field stands for no number.
  __device__ static float value(State, std::uint32_t field) { return std::bit_cast<float>(field); }
};

struct Bf16Fields {
  static constexpr unsigned kPerWord = 2;
  struct State {};
  __device__ State encoder() const { return {}; }
  __device__ State decoder(const std::byte*, DeviceResult*) const { return {}; }
  __device__ static std::uint32_t field(State, float x) { return to_bf16(x); }
  __device__ static float value(State, std::uint32_t field) { return from_bf16(field); }
};

struct HalfFields {
  static constexpr unsigned kPerWord = 2;
  using State = HalfScale;
  const std::uint32_t* largest;  ///< encode: bits of the largest magnitude

  __device__ State encoder() const { return half_scale(shared_exponent(*largest)); }
  /// The exponent stands in front of the body.
  __device__ State decoder(const std::byte* body, DeviceResult* result) const {
    return read_half_scale(body - 2, result);
  }
  __device__ static std::uint32_t field(const State& s, float x) { return half_field(s, x); }
  __device__ static float value(const State& s, std::uint32_t field) { return half_value(s, field); }
};

template <class Fields>
__global__ void encode_words_kernel(Input input, std::size_t n, Fields fields, std::byte* body,
                                    DeviceResult* result) {
  constexpr unsigned kPer = Fields::kPerWord, kBits = 32 / kPer;
  const auto state = fields.encoder();
  const std::size_t words = ceil_divide(n, kPer), bytes = n * (4 / kPer);
  const std::size_t step = kWarp * kAhead;
  for (std::size_t w = warp_of_grid() * step + lane_of_warp(); w - lane_of_warp() < words;
       w += warps_in_grid() * step) {
    float v[kAhead][kPer];
#pragma unroll
    for (unsigned a = 0; a < kAhead; ++a) {
      for (unsigned k = 0; k < kPer; ++k) {
        const std::size_t i = (w + kWarp * a) * kPer + k;
        v[a][k] = i < n ? input.value(i) : 0.0f;
      }
    }
#pragma unroll
    for (unsigned a = 0; a < kAhead; ++a) {
      std::uint32_t word = 0;
      for (unsigned k = 0; k < kPer; ++k) {
        const std::size_t i = (w + kWarp * a) * kPer + k;
        if (i >= n) continue;
        if (!is_finite(v[a][k])) refuse_entry(result, i, DeviceError::not_finite);
        const std::uint32_t field = Fields::field(state, v[a][k]);
        word |= field << (kBits % 32 * k);
        input.keep(i, v[a][k], Fields::value(state, field));
      }
      put_words(body, bytes, w + kWarp * a, word);
    }
  }
}

template <class Fields>
__global__ void decode_words_kernel(Fields fields, const std::byte* body, float weight, float* acc,
                                    std::size_t n, DeviceResult* result) {
  if (refused(result)) return;
  constexpr unsigned kPer = Fields::kPerWord, kBits = 32 / kPer;
  const auto state = fields.decoder(body, result);
  const std::size_t words = ceil_divide(n, kPer), bytes = n * (4 / kPer);
  for (std::size_t w = thread_of_grid(); w < words; w += threads_in_grid()) {
    const std::uint32_t word = get_word(body + 4 * w, bytes - 4 * w);
    for (unsigned k = 0; k < kPer && w * kPer + k < n; ++k) {
      const std::uint32_t field = kPer == 1 ? word : word >> (kBits % 32 * k) & 0xffffu;
      const float value = Fields::value(state, field);
      if (!is_finite(value)) {
        refuse_payload(result, DeviceError::number);
      } else {
        acc[w * kPer + k] += weight * value;
      }
    }
  }
}

__global__ void largest_magnitude_kernel(Input input, std::size_t n, std::uint32_t* largest) {
  std::uint32_t most = 0;
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) {
    const std::uint32_t magnitude = magnitude_of(input.value(i));
    most = magnitude > most ? magnitude : most;
  }
  for (int other = 16; other > 0; other /= 2) {
    const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, most, other);
    most = theirs > most ? theirs : most;
  }
  if (lane_of_warp() == 0 && most > 0) atomicMax(largest, most);
}

__global__ void write_exponent_kernel(const std::uint32_t* largest, std::byte* out) {
  if (threadIdx.x == 0) put_bytes(out, static_cast<std::uint32_t>(shared_exponent(*largest)), 2);
}

template <class Fields>
void encode_words(const Input& input, std::size_t n, Fields fields, std::size_t front,
                  const EncodeCall& call) {
  const std::size_t words = ceil_divide(n, Fields::kPerWord);
  launch(encode_words_kernel<Fields>, blocks_for(words, kThreads * kAhead), kThreads, call.stream, input, n,
         fields, call.out_dev + front, call.result_dev);
}

template <class Fields>
void decode_words(Fields fields, std::size_t front, const DecodeCall& call) {
  const std::size_t words = ceil_divide(call.n, Fields::kPerWord);
  launch(decode_words_kernel<Fields>, blocks_for(words, kThreads * kAhead), kThreads, call.stream, fields,
         call.payload_dev + front, call.weight, call.acc_dev, call.n, call.result_dev);
}

/// dense and bf16: header, n fields.
template <class Fields, wire::CodecId kId>
class Plain final : public BesideHost {
 public:
  using BesideHost::BesideHost;
  std::size_t workspace_bytes(std::size_t) const override { return 0; }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    const Front front = make_front(kId, n);
    begin_encode(front, front.size + n * kBytes, call);
    encode_words(input, n, Fields(), front.size, call);
  }
  void start_decode(const DecodeCall& call) const override {
    const Front front = make_front(kId, call.n);
    begin_decode(front, front.size + call.n * kBytes, call);
    decode_words(Fields(), front.size, call);
  }

 private:
  static constexpr std::size_t kBytes = 4 / Fields::kPerWord;
};

/// Header, 2 bytes k, n halves; the largest magnitude, which k follows from, is found in a pass before.
class Fp16 final : public BesideHost {
 public:
  using BesideHost::BesideHost;
  std::size_t workspace_bytes(std::size_t) const override { return sizeof(std::uint32_t); }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    const Front front = make_front(wire::CodecId::fp16, n);
    auto* const largest = static_cast<std::uint32_t*>(call.workspace_dev);
    begin_encode(front, front.size + 2 + 2 * n, call, largest);
    launch(largest_magnitude_kernel, blocks_for(n, kThreads * 8), kThreads, call.stream, input, n, largest);
    launch(write_exponent_kernel, 1, kWarp, call.stream, largest, call.out_dev + front.size);
    encode_words(input, n, HalfFields{largest}, front.size + 2, call);
  }
  void start_decode(const DecodeCall& call) const override {
    const Front front = make_front(wire::CodecId::fp16, call.n);
    begin_decode(front, front.size + 2 + 2 * call.n, call);
    decode_words(HalfFields{nullptr}, front.size + 2, call);
  }
};

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_dense(std::unique_ptr<const Codec> host, Parameters&) {
  return std::make_unique<Plain<DenseFields, wire::CodecId::dense>>(std::move(host));
}
std::unique_ptr<const DeviceCodec> make_device_bf16(std::unique_ptr<const Codec> host, Parameters&) {
  return std::make_unique<Plain<Bf16Fields, wire::CodecId::bf16>>(std::move(host));
}
std::unique_ptr<const DeviceCodec> make_device_fp16(std::unique_ptr<const Codec> host, Parameters&) {
  return std::make_unique<Fp16>(std::move(host));
}

}  // namespace gossamer::compress::cuda
