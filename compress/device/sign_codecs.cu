// sign_vote, onebit and onebit_two on the device. Half a warp encodes one bucket, 512 entries at a time held
// in registers, so that its 16 lanes are the 16 lanes of the CPU's sums; two ballots of 16 entries each make
// one word of signs. A bucket of up to 512 entries is read once, with feedback too.
#include "host_codec.h"
#include "sign_chunks.cuh"

namespace gossamer::compress::cuda {
namespace {

/// sign_vote: ±1, nothing in the payload.
struct VoteRule {
  static constexpr std::size_t kBytes = 0;
  __device__ void add(const float*, Part, std::size_t, std::size_t) {}
  __device__ SignPair finish(const Input&, Part) { return {1, -1}; }
  __device__ static void write(std::byte*, SignPair) {}
  __device__ static bool read(const std::byte*, SignPair& values) {
    values = {1, -1};
    return true;
  }
};

/// onebit: ± the mean magnitude, summed in float where that does not overflow.
struct MeanRule {
  static constexpr std::size_t kBytes = 4;
  PairwiseSum blocks;
  float lane = 0;

  /// Entries of one chunk, row by row; 0 past the end.
  __device__ void add(const float* v, Part, std::size_t chunk, std::size_t chunks) {
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) lane += absolute(v[r]);
    if (!ends_block(chunk, chunks)) return;
    blocks.add(combine_lanes(lane));
    lane = 0;
  }
  __device__ SignPair finish(const Input& input, Part part) {
    double l1 = static_cast<double>(blocks.total());
    if (part.size == 0) return {0, 0};
    if (!is_finite(blocks.total())) {
      l1 = 0;
      for (std::size_t i = 0; i < part.size; ++i)
        l1 += static_cast<double>(absolute(input.value(part.start + i)));
    }
    const auto scale = static_cast<float>(l1 / static_cast<double>(part.size));
    return {scale, -scale};
  }
  __device__ static void write(std::byte* at, SignPair values) { put_bytes(at, bits_of(values.plus), 4); }
  __device__ static bool read(const std::byte* at, SignPair& values) {
    const float scale = get_float(at);
    values = {scale, -scale};
    return is_finite(scale) && !is_negative(scale);
  }
};

/// onebit_two: the means of the entries ≥ 0 and < 0, summed in float where that does not overflow.
struct TwoMeansRule {
  static constexpr std::size_t kBytes = 8;
  PairwiseSum above_blocks, below_blocks;
  float above = 0, below = 0;
  std::uint32_t positive = 0;

  __device__ void add(const float* v, Part part, std::size_t chunk, std::size_t chunks) {
    const std::size_t first = chunk * kChunk + threadIdx.x % kHalf;
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      above += v[r] >= 0 ? v[r] : 0.0f;
      below += v[r] >= 0 ? 0.0f : v[r];
      positive += first + r * kHalf < part.size && v[r] >= 0 ? 1u : 0u;
    }
    if (!ends_block(chunk, chunks)) return;
    above_blocks.add(combine_lanes(above));
    below_blocks.add(combine_lanes(below));
    above = below = 0;
  }
  __device__ SignPair finish(const Input& input, Part part) {
    double sum_above = static_cast<double>(above_blocks.total()),
           sum_below = static_cast<double>(below_blocks.total());
    if (!is_finite(above_blocks.total()) || !is_finite(below_blocks.total())) {
      sum_above = sum_below = 0;
      for (std::size_t i = 0; i < part.size; ++i) {
        const float x = input.value(part.start + i);
        (x >= 0 ? sum_above : sum_below) += static_cast<double>(x);
      }
    }
    for (int other = kHalf / 2; other > 0; other /= 2)
      positive += __shfl_xor_sync(kAllLanes, positive, other);
    return {mean(sum_above, positive), mean(sum_below, part.size - positive)};
  }
  __device__ static float mean(double sum, std::size_t entries) {
    return entries == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(entries));
  }
  __device__ static void write(std::byte* at, SignPair values) {
    put_bytes(at, bits_of(values.plus), 4);
    put_bytes(at + 4, bits_of(values.minus), 4);
  }
  __device__ static bool read(const std::byte* at, SignPair& values) {
    values = {get_float(at), get_float(at + 4)};
    return is_finite(values.plus) && is_finite(values.minus) && !is_negative(values.plus) &&
           !(values.minus > 0);
  }
};

template <class Rule>
__global__ void encode_signs_kernel(Input input, std::size_t n, std::size_t bucket, std::byte* scales,
                                    std::byte* signs, DeviceResult* result) {
  const std::size_t buckets = ceil_divide(n, bucket);
  for (std::size_t pair = warp_of_grid(); 2 * pair < buckets; pair += warps_in_grid()) {
    const std::size_t b = 2 * pair + lane_of_warp() / kHalf, start = b * bucket;
    const Part part = {start, b < buckets ? least(bucket, n - start) : 0};
    // Both halves of the warp take as many turns as the first bucket needs: the other is none or no longer.
    const std::size_t chunks = ceil_divide(least(bucket, n - 2 * pair * bucket), kChunk);
    Rule rule;
    float v[kRows];
    for (std::size_t c = 0; c < chunks; ++c) {
      load_chunk(input, part, c, v);
      write_chunk(part, c, v, signs, result);
      rule.add(v, part, c, chunks);
    }
    const SignPair values = rule.finish(input, part);
    if (part.size > 0 && threadIdx.x % kHalf == 0) Rule::write(scales + b * Rule::kBytes, values);
    if (input.next == nullptr) continue;
    __syncwarp();  // finish may have read entries that other lanes overwrite now
    for (std::size_t c = 0; c < chunks; ++c) {
      if (chunks > 1) load_chunk(input, part, c, v);
      keep_chunk(input, part, c, v, values);
    }
  }
}

/// A warp decodes 1024 entries: each lane holds a word of signs and its bucket's values.
template <class Rule>
__global__ void decode_signs_kernel(const std::byte* scales, const std::byte* signs, std::size_t bucket,
                                    float weight, float* acc, std::size_t n, DeviceResult* result) {
  if (refused(result)) return;
  const std::size_t bytes = ceil_divide(n, 8), words = ceil_divide(n, 32);
  for (std::size_t w = warp_of_grid() * kWarp; w < words; w += warps_in_grid() * kWarp) {
    const std::size_t mine = w + lane_of_warp();
    std::uint32_t word = 0;
    SignPair values = {0, 0};
    if (mine < words) {
      word = get_word(signs + 4 * mine, bytes - 4 * mine);
      const std::size_t left = n - 32 * mine;
      if (left < 32 && (word >> left) != 0) refuse_payload(result, DeviceError::unused);
      if (!Rule::read(scales + 32 * mine / bucket * Rule::kBytes, values)) {
        refuse_payload(result, DeviceError::number);
        values = {0, 0};
      }
    }
    const float above = weight * values.plus, below = weight * values.minus;
#pragma unroll 8
    for (unsigned r = 0; r < kWarp; ++r) {
      const std::uint32_t bits = __shfl_sync(kAllLanes, word, static_cast<int>(r));
      const float plus = __shfl_sync(kAllLanes, above, static_cast<int>(r));
      const float minus = __shfl_sync(kAllLanes, below, static_cast<int>(r));
      const std::size_t i = 32 * (w + r) + lane_of_warp();
      if (i < n) acc[i] += (bits >> lane_of_warp() & 1u) != 0 ? plus : minus;
    }
  }
}

template <class Rule, wire::CodecId kId>
class Signs final : public BesideHost {
 public:
  /// bucket 0: the codec has none.
  Signs(std::unique_ptr<const Codec> host, std::size_t bucket)
      : BesideHost(std::move(host)), bucket_(bucket) {}
  std::size_t workspace_bytes(std::size_t) const override { return 0; }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    const Front f = front(n);
    begin_encode(f, f.size + scales_bytes(n) + ceil_divide(n, 8), call);
    std::byte* const scales = call.out_dev + f.size;
    launch(encode_signs_kernel<Rule>, blocks_for(ceil_divide(n, bucket()), kThreads / kHalf), kThreads,
           call.stream, input, n, bucket(), scales, scales + scales_bytes(n), call.result_dev);
  }
  void start_decode(const DecodeCall& call) const override {
    const Front f = front(call.n);
    begin_decode(f, f.size + scales_bytes(call.n) + ceil_divide(call.n, 8), call);
    const std::byte* const scales = call.payload_dev + f.size;
    launch(decode_signs_kernel<Rule>, blocks_for(call.n, 32 * kThreads), kThreads, call.stream, scales,
           scales + scales_bytes(call.n), bucket(), call.weight, call.acc_dev, call.n, call.result_dev);
  }

 private:
  std::size_t bucket() const { return bucket_ > 0 ? bucket_ : kChunk; }
  std::size_t scales_bytes(std::size_t n) const { return ceil_divide(n, bucket()) * Rule::kBytes; }
  Front front(std::size_t n) const {
    return make_front(kId, n, [&](wire::Writer& writer) {
      if (bucket_ > 0) writer.varint(bucket_);
    });
  }
  std::size_t bucket_;
};

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_sign_vote(std::unique_ptr<const Codec> host, Parameters&) {
  return std::make_unique<Signs<VoteRule, wire::CodecId::sign_vote>>(std::move(host), 0);
}
std::unique_ptr<const DeviceCodec> make_device_onebit(std::unique_ptr<const Codec> host,
                                                      Parameters& parameters) {
  return std::make_unique<Signs<MeanRule, wire::CodecId::onebit>>(std::move(host),
                                                                  bucket_parameter(parameters));
}
std::unique_ptr<const DeviceCodec> make_device_onebit_two(std::unique_ptr<const Codec> host,
                                                          Parameters& parameters) {
  return std::make_unique<Signs<TwoMeansRule, wire::CodecId::onebit_two>>(std::move(host),
                                                                          bucket_parameter(parameters));
}

}  // namespace gossamer::compress::cuda
