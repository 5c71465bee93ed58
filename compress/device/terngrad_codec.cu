// terngrad on the device: Σv² and max|v| in a pass of their own, in the order of the CPU's sums, then the
// digits of 2560 entries by each warp.
#include "arena.h"
#include "host_codec.h"
#include "level_payload.h"
#include "levels.cuh"
#include "philox.cuh"

namespace gossamer::compress::cuda {
namespace {

constexpr unsigned kGroup = 512;
constexpr unsigned kRows = kGroup / kWarp;
constexpr unsigned kPerByte = 5;
constexpr unsigned kPiece = kPerByte * kGroup;
constexpr std::size_t kGroupsPerSlice = kSlice / kGroup;
constexpr unsigned kDigitThreads = 128;  ///< fewer warps per block, for each needs a piece of shared memory

/// Σv² of each group, and the largest magnitude of all.
__global__ void measure_groups_kernel(Input input, std::size_t n, double* squares, std::uint32_t* largest,
                                      DeviceResult* result) {
  std::uint32_t most = 0;
  for (std::size_t g = warp_of_grid(); g * kGroup < n; g += warps_in_grid()) {
    LaneMeasure measured;
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = g * kGroup + r * kWarp + lane_of_warp();
      const float v = i < n ? input.value(i) : 0.0f;
      if (!is_finite(v)) refuse_entry(result, i, DeviceError::not_finite);
      measured.take(v, Measure::squares);
    }
    measured.combine(Measure::squares);
    most = measured.largest > most ? measured.largest : most;
    if (lane_of_warp() == 0) squares[g] = measured.squares;
  }
  if (lane_of_warp() == 0 && most > 0) atomicMax(largest, most);
}

/// The groups of each slice one after the other, and the slices one after the other, by one block of one
/// warp; slice sums go where the slice's first group's was.
__global__ void scale_kernel(double* squares, std::size_t n, double clip, const std::uint32_t* largest,
                             std::byte* out) {
  const std::size_t groups = ceil_divide(n, kGroup), slices = ceil_divide(groups, kGroupsPerSlice);
  double total = 0;
  for (std::size_t s = 0; s < slices; s += kWarp) {
    double mine = 0;
    const std::size_t first = (s + lane_of_warp()) * kGroupsPerSlice;
    for (std::size_t g = first; g < least(first + kGroupsPerSlice, groups); ++g) mine += squares[g];
    for (unsigned lane = 0; lane < kWarp; ++lane)
      total += __shfl_sync(kAllLanes, mine, static_cast<int>(lane));
  }
  if (lane_of_warp() != 0) return;
  float scale = std::bit_cast<float>(*largest);
  if (clip > 0 && n > 0) {
    const double limit = clip * std::sqrt(total / static_cast<double>(n));
    if (limit < static_cast<double>(scale)) scale = static_cast<float>(limit);
  }
  put_bytes(out, bits_of(scale), 4);
}

struct SharedDigits {
  std::uint8_t of_warp[kDigitThreads / kWarp][kPiece];
};

/// Digits of at most one group, and zeros up to one, to where the warp keeps them.
__device__ void round_group(const Input& input, std::size_t n, const Levels& levels, const RandomKey& key,
                            std::size_t group, std::uint8_t* digits) {
  const unsigned lane = lane_of_warp();
  const auto block = static_cast<std::uint32_t>(group * (kGroup / 8) + lane);
  const Philox even(key, block), odd(key, block + kWarp);
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) {
    const std::size_t i = group * kGroup + r * kWarp + lane;
    digits[r * kWarp + lane] = 0;
    if (i >= n) continue;
    const float v = input.value(i);
    const std::uint32_t draw = r % 2 == 0 ? even.draw(r / 2) : odd.draw(r / 2);
    const unsigned field = plain::field_of(levels, v, plain::place_draw(levels, draw));
    digits[r * kWarp + lane] = static_cast<std::uint8_t>(field);
    input.keep(i, v, plain::value(levels, field));
  }
}

/// Byte b of a piece holds the digits of entries b, row + b, 2·row + b, …
__device__ std::uint32_t digits_byte(const std::uint8_t* digits, unsigned row, unsigned b) {
  if (b >= row) return 0;
  std::uint32_t byte = 0;
  for (unsigned k = kPerByte; k-- > 0;) byte = 3 * byte + digits[k * row + b];
  return byte;
}

__global__ void encode_digits_kernel(Input input, std::size_t n, const RandomKey* key, const std::byte* scale,
                                     std::byte* body) {
  std::uint8_t* const digits = shared<SharedDigits>().of_warp[threadIdx.x / kWarp];
  const Levels levels = plain::around_zero(2, 1, get_float(scale));
  for (std::size_t p = warp_of_grid(); p * kPiece < n; p += warps_in_grid()) {
    const std::size_t count = least(kPiece, n - p * kPiece);
    for (unsigned g = 0; g < kPerByte; ++g)
      round_group(input, n, levels, *key, p * kPerByte + g, digits + g * kGroup);
    __syncwarp();
    const auto row = static_cast<unsigned>(ceil_divide(count, kPerByte));
    for (unsigned w = lane_of_warp(); w < kGroup / 4; w += kWarp) {
      std::uint32_t word = 0;
      for (unsigned k = 0; k < 4; ++k) word |= digits_byte(digits, row, 4 * w + k) << (8 * k);
      put_words(body, ceil_divide(n, kPerByte), p * (kGroup / 4) + w, word);
    }
    __syncwarp();
  }
}

/// The scale of a payload: 0 where it cannot be, which is refused.
__device__ float trusted_scale(const std::byte* at, DeviceResult* result) {
  const float scale = get_float(at);
  if (is_finite(scale) && !is_negative(scale)) return scale;
  refuse_payload(result, DeviceError::number);
  return 0;
}

__global__ void decode_digits_kernel(const std::byte* scale_at, const std::byte* body, float weight,
                                     float* acc, std::size_t n, DeviceResult* result) {
  if (refused(result)) return;
  const Levels levels = plain::around_zero(2, 1, trusted_scale(scale_at, result));
  for (std::size_t b = thread_of_grid(); b < ceil_divide(n, kPerByte); b += threads_in_grid()) {
    const std::size_t piece = b / kGroup, first = piece * kPiece;
    const std::size_t count = least(kPiece, n - first), row = ceil_divide(count, kPerByte);
    auto rest = static_cast<unsigned>(body[b]);
    if (rest >= 243) refuse_payload(result, DeviceError::unused);
    for (std::size_t i = b - piece * kGroup; i < kPerByte * row; i += row, rest /= 3) {
      if (i < count) {
        acc[first + i] += weight * plain::value(levels, rest % 3);
      } else if (rest % 3 != 0) {
        refuse_payload(result, DeviceError::unused);
      }
    }
  }
}

class TernGrad final : public BesideHost {
 public:
  /// clip 0 = none.
  TernGrad(std::unique_ptr<const Codec> host, double clip) : BesideHost(std::move(host)), clip_(clip) {}
  std::size_t workspace_bytes(std::size_t n) const override {
    Arena encoding(nullptr);
    take_room(encoding, n);
    return encoding.bytes();
  }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    const Front f = front(n);
    Arena arena(call.workspace_dev);
    const Room room = take_room(arena, n);
    std::byte* const scale = call.out_dev + f.size;
    const std::size_t body = f.size + sizeof(float);
    begin_encode(f, body + ceil_divide(n, kPerByte), call, room.largest);
    launch(measure_groups_kernel, blocks_for(ceil_divide(n, kGroup), kThreads / kWarp), kThreads, call.stream,
           input, n, room.squares, room.largest, call.result_dev);
    launch(scale_kernel, 1, kWarp, call.stream, room.squares, n, clip_, room.largest, scale);
    launch(encode_digits_kernel, blocks_for(ceil_divide(n, kPiece), kDigitThreads / kWarp), kDigitThreads,
           call.stream, input, n, call.key_dev, scale, call.out_dev + body);
  }
  void start_decode(const DecodeCall& call) const override {
    const Front f = front(call.n);
    const std::byte* const scale = call.payload_dev + f.size;
    const std::size_t body = f.size + sizeof(float);
    const std::size_t bytes = ceil_divide(call.n, kPerByte);
    begin_decode(f, body + bytes, call);
    launch(decode_digits_kernel, blocks_for(bytes, kThreads), kThreads, call.stream, scale,
           call.payload_dev + body, call.weight, call.acc_dev, call.n, call.result_dev);
  }

 private:
  struct Room {
    std::uint32_t* largest;  ///< magnitude
    double* squares;         ///< Σv² of each group
  };
  Room take_room(Arena& arena, std::size_t n) const {
    Room room{};
    room.largest = arena.take<std::uint32_t>(1);
    room.squares = arena.take<double>(ceil_divide(n, kGroup));
    return room;
  }
  Front front(std::size_t n) const {
    return make_front(wire::CodecId::terngrad, n, [&](wire::Writer& writer) {
      writer.u8(static_cast<std::uint8_t>(FieldLayout::packed));
    });
  }
  double clip_;
};

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_terngrad(std::unique_ptr<const Codec> host,
                                                        Parameters& parameters) {
  require_device_form(*host, parameters, "random", {"philox"});
  require_device_form(*host, parameters, "coding", {"packed"});
  const bool clipped = parameters.text("clip") != "none";
  return std::make_unique<TernGrad>(
      std::move(host), clipped ? parameters.real("clip", 2.5, "", [](double) { return true; }) : 0.0);
}

}  // namespace gossamer::compress::cuda
