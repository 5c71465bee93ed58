// onebit_scaled's decoder on the device. Where a bucket's modes and body start depends on all before it, so
// that one warp reads the modes in order, up to 1024 buckets at a step where each is one leaf; then every
// bucket has a warp of its own.
#include "host_codec.h"
#include "scaled.h"
#include "segments.cuh"

namespace gossamer::compress::cuda {
namespace {

/// Where a payload's modes and body lie.
struct Span {
  const std::byte* at;
  std::size_t bytes;
};

/// Modes bit by bit; past the end it reads zeros, and says so.
class ModeReader {
 public:
  __device__ ModeReader(Span modes, std::size_t bit) : modes_(modes), bit_(bit) {}
  __device__ Mode next(std::size_t d) {
    if (!take()) return Mode::scaled;
    if (!take()) return Mode::mean;
    const bool small = d <= kLeaf;
    if (!take()) return small ? Mode::dense : Mode::split;
    return small && !take() ? Mode::sparse : Mode::zero;
  }
  __device__ std::size_t at() const { return bit_; }
  __device__ bool ended() const { return bit_ > 8 * modes_.bytes; }

 private:
  __device__ bool take() {
    const std::size_t byte = bit_ / 8, shift = bit_ % 8;
    ++bit_;
    return byte < modes_.bytes && (static_cast<unsigned>(modes_.at[byte]) >> shift & 1u) != 0;
  }
  Span modes_;
  std::size_t bit_;
};

/// The bits of a sparse leaf's entries; 0 where they are not all there.
__device__ std::uint32_t read_present(Span body, std::size_t at) {
  return at + 2 <= body.bytes ? get_word(body.at + at, 2) : 0;
}

/// The modes' number, a varint of one form only, and what lies behind it. False where it cannot be.
__device__ bool read_plan(const std::byte* payload, std::size_t bytes, std::size_t front, Span& modes,
                          Span& body) {
  std::size_t count = 0, at = front;
  for (unsigned shift = 0;; shift += 7) {
    if (at == bytes || shift > 56) return false;
    const auto byte = static_cast<std::size_t>(payload[at++]);
    count |= (byte & 0x7f) << shift;
    if (byte == 0 && shift > 0) return false;
    if (byte < 0x80) break;
  }
  if (count > bytes - at) return false;
  modes = {payload + at, count};
  body = {payload + at + count, bytes - at - count};
  return true;
}

/// Adds the modes and bytes of one bucket to `start`; false where they run past the payload.
__device__ bool skip_bucket(Span modes, Span body, Part bucket, Extent& start) {
  ModeReader reader(modes, start.bits);
  for (SegmentStack stack(bucket); !stack.empty();) {
    const Part part = stack.pop();
    const Mode mode = reader.next(part.size);
    if (reader.ended()) return false;
    if (mode == Mode::split) {
      stack.split(part);
      continue;
    }
    const std::uint32_t present = mode == Mode::sparse ? read_present(body, start.bytes) : 0;
    start.bytes += leaf_bytes(mode, present, part.size);
    if (start.bytes > body.bytes) return false;
  }
  start.bits = reader.at();
  return true;
}

/// How many of the 1024 bits from `bit` on are 0 before the first 1, the same in all lanes; past the end all
/// are.
__device__ std::size_t zeros_from(Span modes, std::size_t bit) {
  const std::size_t at = bit / 8 + 4 * lane_of_warp();
  const std::uint32_t low = at < modes.bytes ? get_word(modes.at + at, modes.bytes - at) : 0;
  const std::uint32_t high = at + 4 < modes.bytes ? get_word(modes.at + at + 4, modes.bytes - at - 4) : 0;
  const std::uint32_t word = __funnelshift_r(low, high, static_cast<unsigned>(bit % 8));
  const unsigned with_ones = __ballot_sync(kAllLanes, word != 0);
  const int first = __ffs(static_cast<int>(with_ones)) - 1;
  const auto found = static_cast<int>(__shfl_sync(kAllLanes, word, first < 0 ? 0 : first));
  if (first < 0) return std::size_t{kWarp} * kWarp;
  return std::size_t{kWarp} * static_cast<unsigned>(first) + static_cast<unsigned>(__ffs(found) - 1);
}

/// One warp: the start of every bucket.
__global__ void find_starts_kernel(const std::byte* payload, std::size_t bytes, std::size_t front,
                                   std::size_t n, std::size_t bucket, Extent* starts, DeviceResult* result) {
  if (refused(result)) return;
  Span modes, body;
  if (!read_plan(payload, bytes, front, modes, body)) return refuse_payload(result, DeviceError::size);
  const std::size_t buckets = ceil_divide(n, bucket), whole = n / bucket, leaf = 4 + bucket / 8;
  Extent at{};
  for (std::size_t b = 0; b < buckets;) {
    const std::size_t run = least(zeros_from(modes, at.bits), whole - least(b, whole));
    if (run > 0) {
      for (std::size_t k = lane_of_warp(); k < run; k += kWarp)
        starts[b + k] = {at.bits + k, at.bytes + k * leaf};
      at += {run, run * leaf};
      b += run;
    } else {
      if (lane_of_warp() == 0) starts[b] = at;
      if (!skip_bucket(modes, body, {b * bucket, least(bucket, n - b * bucket)}, at))
        return refuse_payload(result, DeviceError::size);
      ++b;
    }
    if (at.bits > 8 * modes.bytes || at.bytes > body.bytes) return refuse_payload(result, DeviceError::size);
  }
  if (at.bytes != body.bytes || ceil_divide(at.bits, 8) != modes.bytes)
    return refuse_payload(result, DeviceError::size);
  if (at.bits % 8 != 0 && static_cast<unsigned>(modes.at[modes.bytes - 1]) >> (at.bits % 8) != 0)
    refuse_payload(result, DeviceError::unused);
}

__device__ void add_signs_leaf(Part part, Span body, std::size_t at, float weight, float* acc,
                               DeviceResult* result) {
  const float scale = get_float(body.at + at);
  if (!is_finite(scale) || !(scale > 0)) return refuse_payload(result, DeviceError::number);
  const float step = weight * scale;
  const std::size_t bytes = ceil_divide(part.size, 8);
  for (std::size_t first = 0; first < bytes; first += 4 * kWarp) {
    const std::size_t mine = first + 4 * lane_of_warp();
    const std::uint32_t word = mine < bytes ? get_word(body.at + at + 4 + mine, bytes - mine) : 0;
    const std::size_t left = mine < bytes ? part.size - 8 * mine : 32;
    if (left < 32 && (word >> left) != 0) refuse_payload(result, DeviceError::unused);
    const std::size_t rows = least(kWarp, ceil_divide(bytes - first, 4));
#pragma unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      const std::uint32_t bits = __shfl_sync(kAllLanes, word, static_cast<int>(r));
      const std::size_t i = 8 * first + 32 * r + lane_of_warp();
      if (i < part.size) acc[part.start + i] += (bits >> lane_of_warp() & 1u) != 0 ? step : -step;
    }
  }
}

__device__ void add_values_leaf(Part part, Mode mode, std::uint32_t present, Span body, std::size_t at,
                                float weight, float* acc, DeviceResult* result) {
  const unsigned lane = lane_of_warp();
  const bool sparse = mode == Mode::sparse;
  if (sparse && (present >> part.size) != 0) return refuse_payload(result, DeviceError::unused);
  if (lane >= part.size || (sparse && (present >> lane & 1u) == 0)) return;
  const auto before = static_cast<std::size_t>(__popc(present & ((1u << lane) - 1)));
  const float value = get_float(body.at + at + (sparse ? 2 + 4 * before : 4 * std::size_t{lane}));
  if (!is_finite(value)) return refuse_payload(result, DeviceError::number);
  acc[part.start + lane] += weight * value;
}

__global__ void add_buckets_kernel(const std::byte* payload, std::size_t bytes, std::size_t front,
                                   std::size_t n, std::size_t bucket, const Extent* starts, float weight,
                                   float* acc, DeviceResult* result) {
  if (refused(result)) return;
  Span modes, body;
  if (!read_plan(payload, bytes, front, modes, body)) return;
  for (std::size_t b = warp_of_grid(); b * bucket < n; b += warps_in_grid()) {
    const Extent start = starts[b];
    std::size_t at = start.bytes;
    ModeReader reader(modes, start.bits);
    for (SegmentStack stack({b * bucket, least(bucket, n - b * bucket)}); !stack.empty();) {
      const Part part = stack.pop();
      const Mode mode = reader.next(part.size);
      const std::uint32_t present = mode == Mode::sparse ? read_present(body, at) : 0;
      if (mode == Mode::split) stack.split(part);
      if (mode == Mode::scaled || mode == Mode::mean) add_signs_leaf(part, body, at, weight, acc, result);
      if (mode == Mode::dense || mode == Mode::sparse)
        add_values_leaf(part, mode, present, body, at, weight, acc, result);
      at += leaf_bytes(mode, present, part.size);
    }
  }
}

class OneBitScaled final : public BesideHost {
 public:
  OneBitScaled(std::unique_ptr<const Codec> host, const ScaledParameters& parameters)
      : BesideHost(std::move(host)), parameters_(parameters) {}
  std::size_t workspace_bytes(std::size_t n) const override {
    const std::size_t starts = ceil_divide(n, parameters_.bucket) * sizeof(Extent);
    const std::size_t encoder = scaled_encoder_bytes(n, parameters_.bucket);
    return encoder > starts ? encoder : starts;
  }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    encode_scaled(input, n, parameters_, call);
  }
  void start_decode(const DecodeCall& call) const override {
    const Front front = scaled_front(call.n, parameters_.bucket);
    const std::size_t buckets = ceil_divide(call.n, parameters_.bucket), at = front.size;
    auto* const starts = static_cast<Extent*>(call.workspace_dev);
    begin_decode_at_least(front, front.size + 1, call);
    launch(find_starts_kernel, 1, kWarp, call.stream, call.payload_dev, call.bytes, at, call.n,
           parameters_.bucket, starts, call.result_dev);
    launch(add_buckets_kernel, blocks_for(buckets, kThreads / kWarp), kThreads, call.stream, call.payload_dev,
           call.bytes, at, call.n, parameters_.bucket, starts, call.weight, call.acc_dev, call.result_dev);
  }

 private:
  ScaledParameters parameters_;
};

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_onebit_scaled(std::unique_ptr<const Codec> host,
                                                             Parameters& parameters) {
  const auto any = [](double) { return true; };
  const bool automatic = parameters.text("lambda") == "auto";
  const bool constant = !parameters.text("bound_abs").empty();
  return std::make_unique<OneBitScaled>(
      std::move(host), ScaledParameters{automatic ? 0.0 : parameters.real("lambda", 1, "", any),
                                        parameters.real(constant ? "bound_abs" : "bound", 0.9, "", any),
                                        constant, bucket_parameter(parameters)});
}

}  // namespace gossamer::compress::cuda
