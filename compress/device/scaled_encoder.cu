// onebit_scaled's encoder on the device. A first pass measures every bucket as onebit does, and settles those
// that are one leaf: its signs wait in the workspace. The others are walked by a warp each, once for their
// sizes and, when prefix sums have said where each bucket goes, once more to be written.
#include "arena.h"
#include "scaled.h"
#include "scan.cuh"
#include "segments.cuh"

namespace gossamer::compress::cuda {
namespace {

/// What the first pass found of a bucket: its mode (split: its tree is still to be walked) and scale.
struct Found {
  Mode mode;
  float scale;
};

struct Room {
  Extent* extents;  ///< of each bucket: sizes, then starts
  Extent* tiles;
  Found* found;
  std::uint32_t* modes;
  std::byte* signs;
};

constexpr std::size_t mode_words(std::size_t n) { return ceil_divide(7 * ceil_divide(n, kLeaf), 32) + 1; }

struct Sizes {
  std::size_t n, bucket;
  constexpr std::size_t buckets() const { return ceil_divide(n, bucket); }
  __device__ Part part(std::size_t b) const {
    return {b * bucket, b < buckets() ? least(bucket, n - b * bucket) : 0};
  }
};

/// All but the trees of split buckets.
__global__ void settle_kernel(Input input, Sizes sizes, ScaledRule rule, Room room, DeviceResult* result) {
  for (std::size_t pair = warp_of_grid(); 2 * pair < sizes.buckets(); pair += warps_in_grid()) {
    const std::size_t b = 2 * pair + lane_of_warp() / kHalf;
    const Part part = sizes.part(b);
    const std::size_t chunks = ceil_divide(sizes.part(2 * pair).size, kChunk);
    PairwiseSum l1, l2;
    float lane_l1 = 0, lane_l2 = 0, v[kRows];
    for (std::size_t c = 0; c < chunks; ++c) {
      load_chunk(input, part, c, v);
      write_chunk(part, c, v, room.signs, result);
#pragma unroll
      for (unsigned r = 0; r < kRows; ++r) {
        lane_l1 += absolute(v[r]);
        lane_l2 += v[r] * v[r];
      }
      if (!ends_block(c, chunks)) continue;
      l1.add(combine_lanes(lane_l1));
      l2.add(combine_lanes(lane_l2));
      lane_l1 = lane_l2 = 0;
    }
    Found found = {Mode::zero, 0};
    if (part.size > 0)
      found.mode = rule.of_bucket(part.size).decide(
          input, part, segment_sums(input, part, l1.total(), l2.total()), found.scale);
    if (part.size > 0 && threadIdx.x % kHalf == 0) {
      room.found[b] = found;
      room.extents[b] = {mode_bits(found.mode, part.size).count, leaf_bytes(found.mode, 0, part.size)};
    }
    if (input.next == nullptr) continue;
    __syncwarp();  // decide may have read entries that other lanes overwrite now
    const SignPair pair_sent =
        found.mode == Mode::zero ? SignPair{0, 0} : SignPair{found.scale, -found.scale};
    for (std::size_t c = 0; c < chunks; ++c) {
      if (chunks > 1) load_chunk(input, part, c, v);
      if (found.mode != Mode::split) keep_chunk(input, part, c, v, pair_sent);
    }
  }
}

/// Calls visit(part, mode, scale, present) for every segment of a bucket in order, splits included.
template <class Visit>
__device__ void walk(const Input& input, const ScaledRule& any, Part bucket, const Visit& visit) {
  const ScaledRule rule = any.of_bucket(bucket.size);
  for (SegmentStack stack(bucket); !stack.empty();) {
    const Part part = stack.pop();
    float scale;
    Mode mode = rule.decide(input, part, measure_segment(input, part), scale);
    std::uint32_t present = 0;
    if (mode == Mode::split && part.size <= kLeaf) {
      present = present_in(input, part);
      mode = values_mode(present, part.size);
    }
    __syncwarp();  // all have read what visit may overwrite
    visit(part, mode, scale, present);
    if (mode == Mode::split) stack.split(part);
  }
}

__global__ void size_trees_kernel(Input input, Sizes sizes, ScaledRule rule, Room room) {
  for (std::size_t b = warp_of_grid(); b < sizes.buckets(); b += warps_in_grid()) {
    if (room.found[b].mode != Mode::split) continue;
    Extent extent{};
    walk(input, rule, sizes.part(b), [&](Part part, Mode mode, float, std::uint32_t present) {
      extent += {mode_bits(mode, part.size).count, leaf_bytes(mode, present, part.size)};
    });
    if (lane_of_warp() == 0) room.extents[b] = extent;
  }
}

/// Bytes of the modes, and where they start in the payload behind the front.
struct Plan {
  std::size_t mode_bytes, modes_at, body_at, end;
};
__device__ Plan plan_of(const Room& room, std::size_t buckets, std::size_t front) {
  const Extent all = room.tiles[tiles_of(buckets)];
  const std::size_t mode_bytes = ceil_divide(all.bits, 8);
  std::size_t length = 1;
  for (std::size_t rest = mode_bytes >> 7; rest != 0; rest >>= 7) ++length;
  return {mode_bytes, front + length, front + length + mode_bytes, front + length + mode_bytes + all.bytes};
}

__global__ void clear_modes_kernel(Room room, std::size_t buckets) {
  const std::size_t words = ceil_divide(room.tiles[tiles_of(buckets)].bits, 32);
  for (std::size_t w = thread_of_grid(); w < words; w += threads_in_grid()) room.modes[w] = 0;
}

__device__ void put_mode(std::uint32_t* modes, std::size_t at, ModeBits bits) {
  if (lane_of_warp() != 0) return;
  const unsigned shift = at % 32;
  if (bits.value << shift != 0) atomicOr(&modes[at / 32], bits.value << shift);
  if (shift + bits.count > 32 && bits.value >> (32 - shift) != 0)
    atomicOr(&modes[at / 32 + 1], bits.value >> (32 - shift));
}

/// A leaf's scale and its signs, which the first pass left in the workspace. Segments start at multiples
/// of 16.
__device__ void copy_signs(std::byte* at, Part part, float scale, const std::byte* signs) {
  const std::size_t bytes = ceil_divide(part.size, 8);
  if (lane_of_warp() == 0) put_bytes(at, bits_of(scale), 4);
  for (std::size_t first = 0; 4 * first < bytes; first += kWarp) {
    const std::size_t w = first + lane_of_warp(), from = 4 * w;
    const std::uint32_t word = from < bytes ? get_word(signs + part.start / 8 + from, bytes - from) : 0;
    put_words(at + 4, bytes, w, word);
  }
}

/// A small segment's values as they are, with or without its zeros.
__device__ void write_values(const Input& input, Part part, Mode mode, std::uint32_t present, std::byte* at) {
  const unsigned lane = lane_of_warp();
  if (mode == Mode::sparse && lane == 0) put_bytes(at, present, 2);
  const bool sparse = mode == Mode::sparse;
  const auto before = static_cast<unsigned>(__popc(present & ((1u << lane) - 1)));
  if (lane >= part.size || (sparse && (present >> lane & 1u) == 0)) return;
  put_bytes(sparse ? at + 2 + 4 * before : at + 4 * lane, bits_of(input.value(part.start + lane)), 4);
}

/// What a leaf of a tree leaves out, after all lanes have read what they need.
__device__ void keep_leaf(const Input& input, Part part, Mode mode, float scale) {
  if (input.next == nullptr || mode == Mode::split) return;
  __syncwarp();
  for (std::size_t i = lane_of_warp(); i < part.size; i += kWarp) {
    const float v = input.value(part.start + i);
    float sent = 0;
    if (mode == Mode::scaled || mode == Mode::mean) sent = v >= 0 ? scale : -scale;
    if (mode == Mode::dense || (mode == Mode::sparse && v != 0)) sent = v;
    input.keep(part.start + i, v, sent);
  }
}

__global__ void write_buckets_kernel(Input input, Sizes sizes, ScaledRule rule, Room room, std::size_t front,
                                     std::byte* out) {
  const Plan plan = plan_of(room, sizes.buckets(), front);
  for (std::size_t b = warp_of_grid(); b < sizes.buckets(); b += warps_in_grid()) {
    Extent at = room.extents[b];
    const Found found = room.found[b];
    const Part bucket = sizes.part(b);
    const auto put = [&](Part part, Mode mode, float scale, std::uint32_t present) {
      put_mode(room.modes, at.bits, mode_bits(mode, part.size));
      std::byte* const body = out + plan.body_at + at.bytes;
      if (mode == Mode::scaled || mode == Mode::mean) copy_signs(body, part, scale, room.signs);
      if (mode == Mode::dense || mode == Mode::sparse) write_values(input, part, mode, present, body);
      at += {mode_bits(mode, part.size).count, leaf_bytes(mode, present, part.size)};
    };
    if (found.mode != Mode::split) {
      put(bucket, found.mode, found.scale, 0);
    } else {
      walk(input, rule, bucket, [&](Part part, Mode mode, float scale, std::uint32_t present) {
        put(part, mode, scale, present);
        keep_leaf(input, part, mode, scale);
      });
    }
  }
}

/// The number of bytes of modes, the modes, and the payload's size.
__global__ void write_modes_kernel(Room room, std::size_t buckets, std::size_t front, std::byte* out,
                                   DeviceResult* result) {
  const Plan plan = plan_of(room, buckets, front);
  if (thread_of_grid() == 0) {
    result->bytes = plan.end;
    std::size_t at = front;
    for (std::size_t rest = plan.mode_bytes; at < plan.modes_at; rest >>= 7, ++at)
      out[at] = static_cast<std::byte>((rest & 0x7f) | (at + 1 < plan.modes_at ? 0x80 : 0));
  }
  for (std::size_t i = thread_of_grid(); i < plan.mode_bytes; i += threads_in_grid())
    out[plan.modes_at + i] = static_cast<std::byte>(room.modes[i / 4] >> (8 * (i % 4)));
}

/// Cuts the workspace; returns its bytes.
std::size_t cut(void* memory, Sizes sizes, Room& room) {
  Arena arena(memory);
  room.extents = arena.take<Extent>(sizes.buckets());
  room.tiles = arena.take<Extent>(tiles_of(sizes.buckets()) + 1);
  room.found = arena.take<Found>(sizes.buckets());
  room.modes = arena.take<std::uint32_t>(mode_words(sizes.n));
  room.signs = arena.take<std::byte>(ceil_divide(sizes.n, 8));
  return arena.bytes();
}

}  // namespace

std::size_t scaled_encoder_bytes(std::size_t n, std::size_t bucket) {
  Room room;
  return cut(nullptr, {n, bucket}, room);
}

void encode_scaled(const Input& input, std::size_t n, const ScaledParameters& parameters,
                   const EncodeCall& call) {
  const Sizes sizes = {n, parameters.bucket};
  const ScaledRule rule = {parameters.lambda, parameters.bound * parameters.bound, parameters.constant};
  const Front front = scaled_front(n, parameters.bucket);
  Room room;
  cut(call.workspace_dev, sizes, room);
  begin_encode(front, 0, call);
  const std::size_t buckets = sizes.buckets(), warps = blocks_for(buckets, kThreads / kWarp);
  launch(settle_kernel, blocks_for(buckets, kThreads / kHalf), kThreads, call.stream, input, sizes, rule,
         room, call.result_dev);
  launch(size_trees_kernel, warps, kThreads, call.stream, input, sizes, rule, room);
  scan(room.extents, {nullptr, buckets}, room.tiles, call.stream);
  launch(clear_modes_kernel, blocks_for(buckets, 32 * kThreads), kThreads, call.stream, room, buckets);
  launch(write_buckets_kernel, warps, kThreads, call.stream, input, sizes, rule, room,
         std::size_t{front.size}, call.out_dev);
  launch(write_modes_kernel, blocks_for(buckets, 8 * kThreads), kThreads, call.stream, room, buckets,
         std::size_t{front.size}, call.out_dev, call.result_dev);
}

}  // namespace gossamer::compress::cuda
