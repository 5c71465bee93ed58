#include "device.cuh"
#include "elias.h"
#include "index_code.h"
#include "scan.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;
constexpr std::uint32_t kRunMax = 0xffff;  ///< a run that goes on

__device__ std::uint32_t gap_of(const std::uint32_t* indices, std::size_t j) {
  return j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1;
}
constexpr std::uint32_t remainder_bits(std::uint32_t gap, unsigned r) { return gap & ((1u << r) - 1); }
__device__ BitCode elias_code(std::uint32_t gap) { return omega(std::uint64_t{gap} + 1); }

__device__ Count warp_sum(Count mine) {
  for (int other = 16; other > 0; other /= 2) mine += __shfl_xor_sync(kAllLanes, mine, other);
  return mine;
}

/// Lane b of each warp counts the gaps with bit b: of these counts all sums of gap >> r are made.
__global__ void measure_gaps_kernel(const std::uint32_t* indices, const Count* count, GapCounts* gaps) {
  Count with_bit = 0, elias_bits = 0, more_runs = 0;
  const unsigned lane = lane_of_warp();
  for (std::size_t j = warp_of_grid() * kWarp; j < *count; j += warps_in_grid() * kWarp) {
    const bool there = j + lane < *count;
    const std::uint32_t gap = there ? gap_of(indices, j + lane) : 0;
    for (unsigned bit = 0; bit < kWarp; ++bit) {
      const unsigned set = __ballot_sync(kAllLanes, gap >> bit & 1u);
      if (bit == lane) with_bit += static_cast<Count>(__popc(set));
    }
    elias_bits += there ? elias_code(gap).length : 0;
    more_runs += gap / kRunMax;
  }
  if (with_bit > 0) atomicAdd(&gaps->with_bit[lane], with_bit);
  elias_bits = warp_sum(elias_bits);
  more_runs = warp_sum(more_runs);
  if (lane == 0 && elias_bits > 0) atomicAdd(&gaps->elias_bits, elias_bits);
  if (lane == 0 && more_runs > 0) atomicAdd(&gaps->more_runs, more_runs);
}

/// Bits of Rice code with parameter r.
__device__ Count rice_bits(const GapCounts& gaps, Count count, unsigned r) {
  Count bits = count * (r + 1);
  for (unsigned b = r; b < kWarp; ++b) bits += gaps.with_bit[b] << (b - r);
  return bits;
}

/// The parameter that the CPU finds (index_coding.cpp): the best of four near the middle, lower where the
/// least of them is best.
__device__ unsigned best_rice(const GapCounts& gaps, Count count, std::size_t n) {
  const unsigned middle = width_of(n / count) - 1;
  unsigned first = middle > 2 ? middle - 2 : 0, best = first;
  for (;;) {
    Count fewest = rice_bits(gaps, count, best);
    for (unsigned r = first; r < first + 4; ++r) {
      const Count bits = rice_bits(gaps, count, r);
      if (bits < fewest) {
        fewest = bits;
        best = r;
      }
    }
    if (best != first || first == 0) return best;
    first = first > 4 ? first - 4 : 0;
  }
}

struct FormPlan {
  IndexForm form;
  unsigned parameter;
  Count bytes;  ///< without the parameter's
  __device__ bool has_parameter() const { return form == IndexForm::rice || form == IndexForm::packed; }
  __device__ Count all_bytes() const { return bytes + (has_parameter() ? 1 : 0); }
};

__device__ FormPlan plan_form(IndexForm form, const GapCounts& gaps, Count count, std::size_t n) {
  FormPlan plan{form, 0, 0};
  switch (form) {
    case IndexForm::rice:
      plan.parameter = best_rice(gaps, count, n);
      plan.bytes = ceil_divide(rice_bits(gaps, count, plan.parameter), 8);
      break;
    case IndexForm::fixed:
      plan.bytes = 4 * count;
      break;
    case IndexForm::packed:
      for (unsigned b = 0; b < kWarp; ++b) plan.parameter = gaps.with_bit[b] > 0 ? b + 1 : plan.parameter;
      plan.bytes = ceil_divide(count * plan.parameter, 8);
      break;
    case IndexForm::elias:
      plan.bytes = ceil_divide(gaps.elias_bits, 8);
      break;
    case IndexForm::runs:
      plan.bytes = 2 * (count + gaps.more_runs);
      break;
    case IndexForm::bitmap:
      plan.bytes = ceil_divide(n, 8);
      break;
  }
  return plan;
}

/// Of equally small forms the first.
__device__ FormPlan choose_form(unsigned coding, const GapCounts& gaps, Count count, std::size_t n) {
  if (coding < kIndexForms) return plan_form(static_cast<IndexForm>(coding), gaps, count, n);
  FormPlan best = plan_form(IndexForm::rice, gaps, count, n);
  for (unsigned form = 1; form < kIndexForms; ++form) {
    const FormPlan other = plan_form(static_cast<IndexForm>(form), gaps, count, n);
    if (other.all_bytes() < best.all_bytes()) best = other;
  }
  return best;
}

__global__ void plan_code_kernel(const Count* count_dev, std::size_t n, const GapCounts* gaps,
                                 std::size_t front, SparseForm form, SparsePlan* plan, std::byte* out,
                                 DeviceResult* result) {
  if (threadIdx.x != 0) return;
  const Count count = *count_dev;
  std::size_t at = front;
  for (Count rest = count; form.writes_count; rest >>= 7) {
    out[at++] = static_cast<std::byte>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    if (rest <= 0x7f) break;
  }
  *plan = {};
  plan->count = count;
  if (count > 0) {
    const FormPlan chosen = choose_form(form.coding, *gaps, count, n);
    out[at++] = static_cast<std::byte>(static_cast<unsigned>(chosen.form) | form_bits(form.values));
    if (chosen.has_parameter()) out[at++] = static_cast<std::byte>(chosen.parameter);
    plan->form = chosen.form;
    plan->parameter = chosen.parameter;
    plan->indices_at = at;
    plan->index_bytes = chosen.bytes;
    plan->values_at = at + chosen.bytes;
    at = plan->values_at + value_bytes(form.values, count);
  }
  result->bytes = at;
}

/// What stands before code j follows from the sum of these.
__global__ void lengths_kernel(const std::uint32_t* indices, const SparsePlan* plan, Count* sums) {
  for (std::size_t j = thread_of_grid(); j < plan->count; j += threads_in_grid()) {
    const std::uint32_t gap = gap_of(indices, j);
    Count length = 0;
    if (plan->form == IndexForm::rice) length = gap >> plan->parameter;
    if (plan->form == IndexForm::elias) length = elias_code(gap).length;
    if (plan->form == IndexForm::runs) length = gap / kRunMax;
    sums[j] = length;
  }
}

__device__ void or_bits(std::uint32_t* words, Count at, std::uint32_t bits) {
  const unsigned shift = at % 32;
  if (bits == 0) return;
  atomicOr(&words[at / 32], bits << shift);
  if (shift > 0 && bits >> (32 - shift) != 0) atomicOr(&words[at / 32 + 1], bits >> (32 - shift));
}

__device__ void put_code(const SparsePlan& plan, std::size_t j, std::uint32_t index, std::uint32_t gap,
                         Count before, std::uint32_t* words) {
  const unsigned width = plan.parameter;
  switch (plan.form) {
    case IndexForm::rice:
      if (width > 0) or_bits(words, Count{j} * width, remainder_bits(gap, width));
      return or_bits(words, plan.count * width + before + (gap >> width) + j, 1);
    case IndexForm::fixed:
      words[j] = index;
      return;
    case IndexForm::packed:
      return or_bits(words, Count{j} * width, gap);
    case IndexForm::elias: {
      const BitCode code = elias_code(gap);
      or_bits(words, before, static_cast<std::uint32_t>(code.bits));
      return or_bits(words, before + 32, static_cast<std::uint32_t>(code.bits >> 32));
    }
    case IndexForm::runs: {
      Count at = 16 * (before + j);
      for (; gap >= kRunMax; gap -= kRunMax, at += 16) or_bits(words, at, kRunMax);
      return or_bits(words, at, gap);
    }
    case IndexForm::bitmap:
      return or_bits(words, index, 1);
  }
}

__global__ void put_code_kernel(const std::uint32_t* indices, const SparsePlan* plan_dev, const Count* sums,
                                std::uint32_t* words) {
  const SparsePlan plan = *plan_dev;
  for (std::size_t j = thread_of_grid(); j < plan.count; j += threads_in_grid())
    put_code(plan, j, indices[j], gap_of(indices, j), sums[j], words);
}

__global__ void copy_code_kernel(const SparsePlan* plan, const std::uint32_t* words, std::byte* out) {
  const std::size_t code_words = ceil_divide(plan->index_bytes, 4);
  for (std::size_t w = warp_of_grid() * kWarp; w < code_words; w += warps_in_grid() * kWarp) {
    const std::size_t mine = w + lane_of_warp();
    put_words(out + plan->indices_at, plan->index_bytes, mine, mine < code_words ? words[mine] : 0);
  }
}

}  // namespace

EncodingRoom take_encoding_room(Arena& arena, const SparseForm& form, std::size_t n, std::size_t most) {
  EncodingRoom room{};
  room.n = n;
  room.most = most;
  room.plan = arena.take<SparsePlan>(1);
  room.gaps = arena.take<GapCounts>(1);
  room.scale = arena.take<ValueScale>(1);
  room.sums = arena.take<Count>(most);
  room.tiles = arena.take<Count>(tiles_of(most) + 1);
  // Two to spare, for what a code has no bits of.
  room.word_count = ceil_divide(indices_max_bytes(form.index_coding(), most, n), 4) + 2;
  room.words = arena.take<std::uint32_t>(room.word_count);
  return room;
}

void write_sparse(const Input& input, const Chosen& chosen, std::size_t front, const SparseForm& form,
                  const EncodingRoom& room, const EncodeCall& call) {
  const auto stream = static_cast<cudaStream_t>(call.stream);
  cudaMemsetAsync(room.gaps, 0, sizeof(GapCounts), stream);
  cudaMemsetAsync(room.words, 0, room.word_count * sizeof(std::uint32_t), stream);
  const std::size_t blocks = blocks_for(room.most, kThreads);
  launch(measure_gaps_kernel, blocks_for(room.most, 16 * kThreads), kThreads, call.stream, chosen.indices,
         chosen.count, room.gaps);
  launch(plan_code_kernel, 1, kWarp, call.stream, chosen.count, room.n, room.gaps, front, form, room.plan,
         call.out_dev, call.result_dev);
  launch(lengths_kernel, blocks, kThreads, call.stream, chosen.indices, room.plan, room.sums);
  scan(room.sums, {&room.plan->count, room.most}, room.tiles, call.stream);
  launch(put_code_kernel, blocks, kThreads, call.stream, chosen.indices, room.plan, room.sums, room.words);
  launch(copy_code_kernel, blocks_for(room.word_count, kThreads), kThreads, call.stream, room.plan,
         room.words, call.out_dev);
  write_values(form.values, input, chosen, room.most, room.plan, room.scale, call);
}

}  // namespace gossamer::compress::cuda
