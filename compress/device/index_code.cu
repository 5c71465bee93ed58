#include "index_code.h"

#include "device.cuh"
#include "scan.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;
constexpr unsigned kRiceMax = 31;

__device__ std::uint32_t gap_of(const std::uint32_t* indices, std::size_t j) {
  return j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1;
}
constexpr std::uint32_t low_bits(std::uint32_t gap, unsigned r) { return gap & ((1u << r) - 1); }
constexpr unsigned width_of(std::size_t v) {
  unsigned width = 0;
  for (; v != 0; v >>= 1) ++width;
  return width;
}

/// Lane b of each warp counts the gaps with bit b: of these counts all sums of gap >> r are made.
__global__ void count_bits_kernel(const std::uint32_t* indices, const Count* count, Count* bit_counts) {
  Count mine = 0;
  for (std::size_t j = warp_of_grid() * kWarp; j < *count; j += warps_in_grid() * kWarp) {
    const std::uint32_t gap = j + lane_of_warp() < *count ? gap_of(indices, j + lane_of_warp()) : 0;
    for (unsigned bit = 0; bit < kWarp; ++bit) {
      const unsigned set = __ballot_sync(kAllLanes, gap >> bit & 1u);
      if (bit == lane_of_warp()) mine += static_cast<Count>(__popc(set));
    }
  }
  if (mine > 0) atomicAdd(&bit_counts[lane_of_warp()], mine);
}

/// Bits of Rice code with parameter r.
__device__ Count code_bits(const Count* bit_counts, Count count, unsigned r) {
  Count bits = count * (r + 1);
  for (unsigned b = r; b < kWarp; ++b) bits += bit_counts[b] << (b - r);
  return bits;
}

/// The parameter that the CPU finds (index_coding.cpp): the best of four near the middle, lower where the
/// least of them is best.
__device__ unsigned best_rice(const Count* bit_counts, Count count, std::size_t n) {
  const unsigned middle = width_of(n / count) - 1;
  unsigned first = middle > 2 ? middle - 2 : 0, best = first;
  for (;;) {
    Count fewest = code_bits(bit_counts, count, best);
    for (unsigned r = first; r < first + 4; ++r) {
      const Count bits = code_bits(bit_counts, count, r);
      if (bits < fewest) {
        fewest = bits;
        best = r;
      }
    }
    if (best != first || first == 0) return best;
    first = first > 4 ? first - 4 : 0;
  }
}

__global__ void plan_code_kernel(const Count* count_dev, std::size_t n, const Count* bit_counts,
                                 SparseFront front, SparsePlan* plan, std::byte* out, DeviceResult* result) {
  if (threadIdx.x != 0) return;
  const Count count = *count_dev;
  std::size_t at = front.size;
  for (Count rest = count; front.writes_count; rest >>= 7) {
    out[at++] = static_cast<std::byte>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    if (rest <= 0x7f) break;
  }
  *plan = {};
  plan->count = count;
  if (count > 0) {
    if (front.writes_count) out[at++] = std::byte{0};  // Rice code
    plan->rice = best_rice(bit_counts, count, n);
    out[at++] = static_cast<std::byte>(plan->rice);
    plan->indices_at = at;
    plan->index_bytes = ceil_divide(code_bits(bit_counts, count, plan->rice), 8);
    at += plan->index_bytes;
    plan->values_at = at;
    at += 4 * count;
  }
  result->bytes = at;
}

__global__ void quotients_kernel(const std::uint32_t* indices, const SparsePlan* plan, Count* sums) {
  for (std::size_t j = thread_of_grid(); j < plan->count; j += threads_in_grid())
    sums[j] = gap_of(indices, j) >> plan->rice;
}

__device__ void or_bits(std::uint32_t* words, Count at, std::uint32_t bits) {
  const unsigned shift = at % 32;
  atomicOr(&words[at / 32], bits << shift);
  if (shift > 0 && bits >> (32 - shift) != 0) atomicOr(&words[at / 32 + 1], bits >> (32 - shift));
}

__global__ void put_code_kernel(const std::uint32_t* indices, const SparsePlan* plan, const Count* sums,
                                std::uint32_t* words) {
  const unsigned r = plan->rice;
  for (std::size_t j = thread_of_grid(); j < plan->count; j += threads_in_grid()) {
    const std::uint32_t gap = gap_of(indices, j);
    if (r > 0) or_bits(words, Count{j} * r, low_bits(gap, r));
    or_bits(words, plan->count * r + sums[j] + (gap >> r) + j, 1);
  }
}

/// The code, then the values, into the payload.
__global__ void copy_kernel(const SparsePlan* plan, const std::uint32_t* words, const float* values,
                            std::byte* out) {
  const std::size_t code_words = ceil_divide(plan->index_bytes, 4);
  for (std::size_t w = warp_of_grid() * kWarp; w < code_words; w += warps_in_grid() * kWarp) {
    const std::size_t mine = w + lane_of_warp();
    put_words(out + plan->indices_at, plan->index_bytes, mine, mine < code_words ? words[mine] : 0);
  }
  for (std::size_t j = warp_of_grid() * kWarp; j < plan->count; j += warps_in_grid() * kWarp) {
    const std::size_t mine = j + lane_of_warp();
    put_words(out + plan->values_at, 4 * plan->count, mine, mine < plan->count ? bits_of(values[mine]) : 0);
  }
}

/// The count, a varint of one form only; false where it is none.
__device__ bool read_count(const std::byte* payload, std::size_t bytes, std::size_t& at, Count& count) {
  count = 0;
  for (unsigned shift = 0; at < bytes && shift <= 28; shift += 7) {
    const auto byte = static_cast<Count>(payload[at++]);
    count |= (byte & 0x7f) << shift;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

__device__ DeviceError read_plan(const std::byte* payload, std::size_t bytes, std::size_t n,
                                 SparseFront front, SparsePlan& plan) {
  std::size_t at = front.size;
  Count count = plan.count;
  plan.count = 0;
  if (front.writes_count) {
    if (!read_count(payload, bytes, at, count)) return DeviceError::size;
    if (count > n) return DeviceError::index;
    if (count == 0) return at == bytes ? DeviceError::none : DeviceError::size;
    if (at == bytes || payload[at++] != std::byte{0}) return DeviceError::front;
  }
  if (at == bytes || bytes - at - 1 < 4 * count) return DeviceError::size;
  plan.rice = static_cast<unsigned>(payload[at++]);
  if (plan.rice > kRiceMax) return DeviceError::number;
  plan.indices_at = at;
  plan.values_at = bytes - 4 * count;
  plan.index_bytes = plan.values_at - at;
  const Count bits = 8 * plan.index_bytes, remainders = count * plan.rice;
  if (bits < remainders + count || bits - remainders > count + (n >> plan.rice) + 7) return DeviceError::size;
  plan.quotient_words = ceil_divide(bits - remainders, 32);
  plan.count = count;
  return DeviceError::none;
}

/// count: of the payload's entries, where its front says no more.
__global__ void read_plan_kernel(const std::byte* payload, std::size_t bytes, std::size_t n,
                                 SparseFront front, std::size_t count, SparsePlan* plan,
                                 DeviceResult* result) {
  if (threadIdx.x != 0) return;
  SparsePlan found{};
  found.count = count;
  DeviceError error = result->error;
  if (error == DeviceError::none) error = read_plan(payload, bytes, n, front, found);
  if (error != DeviceError::none) {
    found = {};
    refuse_payload(result, error);
  }
  *plan = found;
}

/// Up to 32 bits of the code from `bit` on, zeros past its end.
__device__ std::uint32_t code_word(const std::byte* payload, const SparsePlan& plan, Count bit) {
  const std::byte* const code = payload + plan.indices_at;
  const Count byte = bit / 8;
  const std::uint32_t low = byte < plan.index_bytes ? get_word(code + byte, plan.index_bytes - byte) : 0;
  const std::uint32_t high =
      byte + 4 < plan.index_bytes ? get_word(code + byte + 4, plan.index_bytes - byte - 4) : 0;
  return __funnelshift_r(low, high, static_cast<unsigned>(bit % 8));
}
__device__ std::uint32_t quotient_word(const std::byte* payload, const SparsePlan& plan, std::size_t w) {
  return code_word(payload, plan, plan.count * plan.rice + 32 * Count{w});
}
__device__ std::uint32_t remainder_of(const std::byte* payload, const SparsePlan& plan, std::size_t j) {
  return low_bits(code_word(payload, plan, Count{j} * plan.rice), plan.rice);
}

__global__ void count_ones_kernel(const std::byte* payload, const SparsePlan* plan_dev, Count* ones) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t w = thread_of_grid(); w < plan.quotient_words; w += threads_in_grid())
    ones[w] = static_cast<Count>(__popc(quotient_word(payload, plan, w)));
}

/// Each one ends a quotient: the zeros up to it are the sum of the quotients so far.
__global__ void find_highs_kernel(const std::byte* payload, const SparsePlan* plan_dev, const Count* ones,
                                  const Count* all_ones, Count* highs, DeviceResult* result) {
  const SparsePlan plan = *plan_dev;
  if (plan.count > 0 && *all_ones != plan.count && thread_of_grid() == 0)
    refuse_payload(result, DeviceError::unused);
  for (std::size_t w = thread_of_grid(); w < plan.quotient_words; w += threads_in_grid()) {
    Count j = ones[w];
    for (std::uint32_t bits = quotient_word(payload, plan, w); bits != 0 && j < plan.count;
         bits &= bits - 1, ++j) {
      const Count at = 32 * Count{w} + static_cast<Count>(__ffs(static_cast<int>(bits)) - 1);
      highs[j] = at - j;
      if (j + 1 == plan.count && ceil_divide(plan.count * plan.rice + at + 1, 8) != plan.index_bytes)
        refuse_payload(result, DeviceError::unused);
    }
  }
}

__global__ void remainders_kernel(const std::byte* payload, const SparsePlan* plan_dev, Count* sums) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t j = thread_of_grid(); j < plan.count; j += threads_in_grid())
    sums[j] = remainder_of(payload, plan, j);
}

__global__ void add_entries_kernel(const std::byte* payload, const SparsePlan* plan_dev, const Count* highs,
                                   const Count* sums, std::size_t n, float weight, float* acc,
                                   DeviceResult* result) {
  if (refused(result)) return;
  const SparsePlan plan = *plan_dev;
  for (std::size_t j = thread_of_grid(); j < plan.count; j += threads_in_grid()) {
    const float value = get_float(payload + plan.values_at + 4 * j);
    const bool near = highs[j] <= n >> plan.rice;
    const Count i = near ? (highs[j] << plan.rice) + sums[j] + remainder_of(payload, plan, j) + j : n;
    if (i >= n) {
      refuse_payload(result, DeviceError::index);
    } else if (!is_finite(value)) {
      refuse_payload(result, DeviceError::number);
    } else {
      acc[i] += weight * value;
    }
  }
}

/// Words of the longest code, with one to spare for bits that end at a word's end.
std::size_t code_words(std::size_t n, std::size_t most) {
  return most == 0 ? 1 : ceil_divide(most * (width_of(n / most) + 3), 32) + 2;
}
std::size_t quotient_words(std::size_t n, std::size_t most) { return (most + n + 7) / 32 + 1; }
std::size_t blocks_of(std::size_t count) { return blocks_for(count, kThreads); }

IndexRoom take_room(Arena& arena, std::size_t n, std::size_t most) {
  IndexRoom room{};
  room.n = n;
  room.most = most;
  room.plan = arena.take<SparsePlan>(1);
  room.sums = arena.take<Count>(most);
  room.tiles = arena.take<Count>(tiles_of(most) + 1);
  return room;
}

}  // namespace

IndexRoom take_encoding_room(Arena& arena, std::size_t n, std::size_t most) {
  IndexRoom room = take_room(arena, n, most);
  room.bit_counts = arena.take<Count>(kWarp);
  room.words = arena.take<std::uint32_t>(code_words(n, most));
  return room;
}

IndexRoom take_decoding_room(Arena& arena, std::size_t n, std::size_t most) {
  IndexRoom room = take_room(arena, n, most);
  room.ones = arena.take<Count>(quotient_words(n, most));
  room.ones_tiles = arena.take<Count>(tiles_of(quotient_words(n, most)) + 1);
  room.highs = arena.take<Count>(most);
  return room;
}

void write_sparse(const Chosen& chosen, SparseFront front, const IndexRoom& room, const EncodeCall& call) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  cudaMemsetAsync(room.bit_counts, 0, kWarp * sizeof(Count), stream);
  cudaMemsetAsync(room.words, 0, code_words(room.n, room.most) * sizeof(std::uint32_t), stream);
  const std::size_t blocks = blocks_of(room.most);
  launch(count_bits_kernel, blocks_for(room.most, 16 * kThreads), kThreads, call.stream, chosen.indices,
         chosen.count, room.bit_counts);
  launch(plan_code_kernel, 1, kWarp, call.stream, chosen.count, room.n, room.bit_counts, front, room.plan,
         call.out_dev, call.result_dev);
  launch(quotients_kernel, blocks, kThreads, call.stream, chosen.indices, room.plan, room.sums);
  scan(room.sums, {&room.plan->count, room.most}, room.tiles, call.stream);
  launch(put_code_kernel, blocks, kThreads, call.stream, chosen.indices, room.plan, room.sums, room.words);
  launch(copy_kernel, blocks, kThreads, call.stream, room.plan, room.words, chosen.values, call.out_dev);
}

void add_sparse(const DecodeCall& call, SparseFront front, std::size_t count, const IndexRoom& room) {
  const std::size_t blocks = blocks_of(room.most), words = quotient_words(room.n, room.most);
  launch(read_plan_kernel, 1, kWarp, call.stream, call.payload_dev, call.bytes, room.n, front, count,
         room.plan, call.result_dev);
  launch(count_ones_kernel, blocks_of(words), kThreads, call.stream, call.payload_dev, room.plan, room.ones);
  scan(room.ones, {&room.plan->quotient_words, words}, room.ones_tiles, call.stream);
  launch(find_highs_kernel, blocks_of(words), kThreads, call.stream, call.payload_dev, room.plan, room.ones,
         room.ones_tiles + tiles_of(words), room.highs, call.result_dev);
  launch(remainders_kernel, blocks, kThreads, call.stream, call.payload_dev, room.plan, room.sums);
  scan(room.sums, {&room.plan->count, room.most}, room.tiles, call.stream);
  launch(add_entries_kernel, blocks, kThreads, call.stream, call.payload_dev, room.plan, room.highs,
         room.sums, room.n, call.weight, call.acc_dev, call.result_dev);
}

}  // namespace gossamer::compress::cuda
