// randk on the device: the indices are a permutation's first k values, each found by itself.
#include "gossamer/compress/selection.h"
#include "host_codec.h"
#include "permutation.h"
#include "philox.cuh"

namespace gossamer::compress::cuda {
namespace {

/// Everything that a thread needs to know of the drawing.
struct Drawing {
  std::uint32_t n, root;
  std::size_t k;
};

struct SharedDraws {
  std::uint16_t draws[2 * Permutation::kKeys];
};

struct SharedStop {
  unsigned stop;  ///< one answer for the whole block
};

/// The permutation of a seed, by all threads of a block.
__device__ Permutation permutation_of(std::uint64_t seed, const Drawing& drawing) {
  auto& draws = shared<SharedDraws>().draws;
  RandomKey key{};
  key.seed = seed;
  // Entries 0 … 63 are the low halves of the first words of blocks 0 … 63.
  if (threadIdx.x < 2 * Permutation::kKeys)
    draws[threadIdx.x] = static_cast<std::uint16_t>(Philox(key, threadIdx.x).draw(0));
  __syncthreads();
  return Permutation(drawing.n, drawing.root, draws);
}

/// Seed of the indices, from the key's first four draws, into the payload.
__global__ void write_seed_kernel(const RandomKey* key, std::byte* out) {
  const std::uint32_t draw = Philox(*key, threadIdx.x).draw(0) & 0xffffu;
  const std::uint32_t d0 = __shfl_sync(kAllLanes, draw, 0), d1 = __shfl_sync(kAllLanes, draw, 1);
  const std::uint32_t d2 = __shfl_sync(kAllLanes, draw, 2), d3 = __shfl_sync(kAllLanes, draw, 3);
  if (threadIdx.x != 0) return;
  put_bytes(out, d2 << 16 | d3, 4);
  put_bytes(out + 4, d0 << 16 | d1, 4);
}

__device__ std::uint64_t read_seed(const std::byte* at) {
  return get_word(at, 4) | static_cast<std::uint64_t>(get_word(at + 4, 4)) << 32;
}

/// Forms v and refuses entries that are not finite.
__global__ void form_kernel(Input input, std::size_t n, DeviceResult* result) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) {
    const float v = input.value(i);
    if (!is_finite(v)) refuse_entry(result, i, DeviceError::not_finite);
    input.keep(i, v, 0);
  }
}

/// Where there is feedback, form_kernel left v in the residual.
__global__ void send_kernel(Input input, Drawing drawing, float factor, const std::byte* seed,
                            std::byte* values, DeviceResult* result) {
  const Permutation index = permutation_of(read_seed(seed), drawing);
  const float* const v = input.next == nullptr ? input.g : input.next;
  for (std::size_t j = warp_of_grid() * kWarp; j < drawing.k; j += warps_in_grid() * kWarp) {
    const std::size_t mine = j + lane_of_warp();
    float value = 0;
    if (mine < drawing.k) {
      const std::uint32_t i = index(static_cast<std::uint32_t>(mine));
      value = v[i] * factor;
      if (!is_finite(value) && is_finite(v[i])) refuse_entry(result, i, DeviceError::overflow);
      input.sent(i, v[i], value);
    }
    put_words(values, 4 * drawing.k, mine, bits_of(value));
  }
}

__global__ void add_kernel(Drawing drawing, const std::byte* seed, const std::byte* values, float weight,
                           float* acc, DeviceResult* result) {
  auto& stop = shared<SharedStop>().stop;
  if (threadIdx.x == 0) stop = result->error != DeviceError::none ? 1u : 0u;
  __syncthreads();
  if (stop != 0) return;
  const Permutation index = permutation_of(read_seed(seed), drawing);
  for (std::size_t j = thread_of_grid(); j < drawing.k; j += threads_in_grid()) {
    const float value = get_float(values + 4 * j);
    if (!is_finite(value)) {
      refuse_payload(result, DeviceError::number);
    } else {
      acc[index(static_cast<std::uint32_t>(j))] += weight * value;
    }
  }
}

class RandK final : public BesideHost {
 public:
  RandK(std::unique_ptr<const Codec> host, double density, bool scaled)
      : BesideHost(std::move(host)), density_(density), scaled_(scaled) {}
  std::size_t workspace_bytes(std::size_t) const override { return 0; }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    wire::require_indexable(n, "randk");
    const Front f = front(n);
    const Drawing d = drawing(n);
    begin_encode(f, payload_bytes(f, d), call);
    if (n == 0) return;
    std::byte* const seed = call.out_dev + f.size;
    const float factor =
        scaled_ ? static_cast<float>(static_cast<double>(n) / static_cast<double>(d.k)) : 1.0f;
    launch(write_seed_kernel, 1, kWarp, call.stream, call.key_dev, seed);
    launch(form_kernel, blocks_for(n, 8 * kThreads), kThreads, call.stream, input, n, call.result_dev);
    launch(send_kernel, blocks_for(d.k, kThreads), kThreads, call.stream, input, d, factor, seed,
           seed + sizeof(std::uint64_t), call.result_dev);
  }
  void start_decode(const DecodeCall& call) const override {
    if (call.n > wire::kIndexedMax) return refuse_decode(call);
    const Front f = front(call.n);
    const Drawing d = drawing(call.n);
    begin_decode(f, payload_bytes(f, d), call);
    if (call.n == 0) return;
    const std::byte* const seed = call.payload_dev + f.size;
    launch(add_kernel, blocks_for(d.k, kThreads), kThreads, call.stream, d, seed,
           seed + sizeof(std::uint64_t), call.weight, call.acc_dev, call.result_dev);
  }

 private:
  Drawing drawing(std::size_t n) const {
    if (n == 0) return {};
    return {static_cast<std::uint32_t>(n), Permutation::root_of(static_cast<std::uint32_t>(n)),
            kept_entries(density_, n)};
  }
  Front front(std::size_t n) const {
    return make_front(wire::CodecId::randk, n, [&](wire::Writer& writer) { writer.varint(drawing(n).k); });
  }
  static std::size_t payload_bytes(const Front& front, const Drawing& drawing) {
    return front.size + (drawing.k == 0 ? 0 : sizeof(std::uint64_t) + drawing.k * sizeof(float));
  }
  double density_;
  bool scaled_;
};

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_randk(std::unique_ptr<const Codec> host,
                                                     Parameters& parameters) {
  const auto any = [](double) { return true; };
  const double density = parameters.real("density", 0.01, "", any);
  return std::make_unique<RandK>(std::move(host), density, parameters.text("scale") == "1");
}

}  // namespace gossamer::compress::cuda
