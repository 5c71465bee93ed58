#include "values.h"

#include <cmath>

#include "half.cuh"
#include "index_code.h"
#include "value_forms.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;

__global__ void largest_value_kernel(const float* values, const SparsePlan* plan, ValueScale* scale) {
  std::uint32_t most = 0;
  for (std::size_t j = thread_of_grid(); j < plan->count; j += threads_in_grid()) {
    const std::uint32_t magnitude = magnitude_of(values[j]);
    most = magnitude > most ? magnitude : most;
  }
  for (int other = 16; other > 0; other /= 2) {
    const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, most, other);
    most = theirs > most ? theirs : most;
  }
  if (lane_of_warp() == 0 && most > 0) atomicMax(&scale->largest, most);
}

constexpr unsigned kStaged = 8 * kThreads;
struct StagedMagnitudes {
  float of[kStaged];
  double sum[8];
  double middle;
  Count above;
};

/// Calls work(magnitudes, first, count) with the values in order, kStaged of them at a time, in all threads
/// of one block.
template <class Work>
__device__ void in_order(const float* values, std::size_t count, const Work& work) {
  auto& staged = shared<StagedMagnitudes>().of;
  for (std::size_t first = 0; first < count; first += kStaged) {
    const std::size_t here = least(kStaged, count - first);
    for (std::size_t i = threadIdx.x; i < here; i += kThreads) staged[i] = absolute(values[first + i]);
    __syncthreads();
    work(staged, first, here);
    __syncthreads();
  }
}

/// Mean magnitudes by one block, in the order of sums.h: eight sums of every eighth value. Those of the two
/// sides of the mean are two sums in order.
__global__ void mean_kernel(const float* values, const SparsePlan* plan, bool two_sides, ValueScale* scale) {
  auto& room = shared<StagedMagnitudes>();
  const std::size_t count = plan->count, whole = count / 8 * 8;
  const unsigned t = threadIdx.x;
  double sum = 0;
  in_order(values, count, [&](const float* magnitudes, std::size_t first, std::size_t here) {
    if (t >= 8) return;
    for (std::size_t i = t; i < here && first + i < whole; i += 8) sum += static_cast<double>(magnitudes[i]);
    if (t > 0 || first + here < count) return;
    for (std::size_t i = whole - least(whole, first); i < here; ++i)
      sum += static_cast<double>(magnitudes[i]);
  });
  if (t < 8) room.sum[t] = sum;
  __syncthreads();
  if (t == 0) {
    const double* const s = room.sum;
    const double all = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    room.middle = count == 0 ? 0 : all / static_cast<double>(count);
    room.above = 0;
    scale->middle = room.middle;
    scale->first = static_cast<float>(room.middle);
  }
  __syncthreads();
  if (!two_sides) return;
  const double middle = room.middle;
  double side = 0;
  Count above = 0;
  in_order(values, count, [&](const float* magnitudes, std::size_t, std::size_t here) {
    for (std::size_t i = t; i < here; i += kThreads)
      above += static_cast<double>(magnitudes[i]) > middle ? 1 : 0;
    if (t >= 2) return;
    for (std::size_t i = 0; i < here; ++i) {
      const auto size = static_cast<double>(magnitudes[i]);
      side += (size > middle) == (t == 1) ? size : 0;
    }
  });
  if (above > 0) atomicAdd(&room.above, above);
  if (t < 2) room.sum[t] = side;
  __syncthreads();
  if (t != 0) return;
  const Count large = room.above, small = count - large;
  scale->first = small > 0 ? static_cast<float>(room.sum[0] / static_cast<double>(small)) : 0.0f;
  scale->second = large > 0 ? static_cast<float>(room.sum[1] / static_cast<double>(large)) : scale->first;
}

/// Words w … w + 31 of the fields, one in each lane.
template <class Form>
__device__ std::uint32_t word_of(const typename Form::State& state, const float* values, std::size_t count,
                                 std::size_t w) {
  constexpr unsigned kPer = 32 / Form::kBits;
  std::uint32_t word = 0;
  if constexpr (kPer == 32) {
    for (unsigned r = 0; r < kWarp; ++r) {
      const std::size_t j = (w + r) * kWarp + lane_of_warp();
      const unsigned ballot =
          __ballot_sync(kAllLanes, j < count && Form::field(state, values[j]) != 0 ? 1 : 0);
      if (r == lane_of_warp()) word = ballot;
    }
  } else {
    for (unsigned k = 0; k < kPer; ++k) {
      const std::size_t j = (w + lane_of_warp()) * kPer + k;
      if (j < count) word |= Form::field(state, values[j]) << (Form::kBits % 32 * k);
    }
  }
  return word;
}

template <class Form>
__global__ void put_values_kernel(const float* values, const SparsePlan* plan, const ValueScale* scale,
                                  std::byte* out) {
  const std::size_t count = plan->count, bytes = ceil_divide(count * Form::kBits, 8);
  if (count == 0) return;
  const auto state = Form::encoder(*scale);
  std::byte* const at = out + plan->values_at;
  if (thread_of_grid() == 0) Form::put_front(*scale, at);
  const std::size_t words = ceil_divide(bytes, 4);
  for (std::size_t w = warp_of_grid() * kWarp; w < words; w += warps_in_grid() * kWarp)
    put_words(at + Form::kFront, bytes, w + lane_of_warp(), word_of<Form>(state, values, count, w));
}

/// What was sent is taken from what the search left in the residual.
template <class Form>
__global__ void keep_sent_kernel(Input input, Chosen chosen, const ValueScale* scale) {
  const auto state = Form::encoder(*scale);
  for (std::size_t j = thread_of_grid(); j < *chosen.count; j += threads_in_grid()) {
    const float v = chosen.values[j];
    input.sent(chosen.indices[j], v, Form::value(state, Form::field(state, v)));
  }
}

template <class Form>
__global__ void add_values_kernel(const std::byte* payload, const SparsePlan* plan_dev,
                                  DecodedIndices indices, std::size_t n, float weight, float* acc,
                                  DeviceResult* result) {
  if (refused(result)) return;
  const SparsePlan plan = *plan_dev;
  if (plan.count == 0) return;
  const auto state = Form::decoder(payload + plan.values_at, result);
  const std::byte* const body = payload + plan.values_at + Form::kFront;
  const std::size_t bytes = ceil_divide(plan.count * Form::kBits, 8);
  for (std::size_t j = thread_of_grid(); j < plan.count; j += threads_in_grid()) {
    const std::size_t bit = j * Form::kBits, byte = bit / 8;
    const std::uint32_t rest = get_word(body + byte, bytes - byte) >> (bit % 8);
    const float value = Form::value(state, Form::kBits == 32 ? rest : rest & ((1u << Form::kBits % 32) - 1));
    const Count start = indices.starts[j], i = start >= n ? n : start + indices.sums[j + 1];
    if (i >= n) {
      refuse_payload(result, DeviceError::index);
    } else if (!is_finite(value)) {
      refuse_payload(result, DeviceError::number);
    } else if (j + 1 == plan.count && Form::kBits < 8 && rest >> Form::kBits % 32 != 0) {
      refuse_payload(result, DeviceError::unused);
    } else {
      acc[i] += weight * value;
    }
  }
}

struct Writing {
  const Input& input;
  const Chosen& chosen;
  std::size_t most;
  const SparsePlan* plan;
  ValueScale* scale;
  const EncodeCall& call;
};

template <class Form>
void put(const Writing& w) {
  const std::size_t words = ceil_divide(w.most * Form::kBits, 32);
  launch(put_values_kernel<Form>, blocks_for(words, kThreads), kThreads, w.call.stream, w.chosen.values,
         w.plan, w.scale, w.call.out_dev);
  if (w.input.next == nullptr) return;
  launch(keep_sent_kernel<Form>, blocks_for(w.most, kThreads), kThreads, w.call.stream, w.input, w.chosen,
         w.scale);
}

}  // namespace

void write_values(ValueForm form, const Input& input, const Chosen& chosen, std::size_t most,
                  const SparsePlan* plan, ValueScale* scale, const EncodeCall& call) {
  const Writing w{input, chosen, most, plan, scale, call};
  if (form == ValueForm::fp16 || form == ValueForm::int8) {
    cudaMemsetAsync(scale, 0, sizeof(ValueScale), static_cast<cudaStream_t>(call.stream));
    launch(largest_value_kernel, blocks_for(most, 8 * kThreads), kThreads, call.stream, chosen.values, plan,
           scale);
  }
  if (form == ValueForm::sign || form == ValueForm::two_bit)
    launch(mean_kernel, 1, kThreads, call.stream, chosen.values, plan, form == ValueForm::two_bit, scale);
  switch (form) {
    case ValueForm::fp32:
      return put<WholeValues>(w);
    case ValueForm::fp16:
      return put<HalfValues>(w);
    case ValueForm::int8:
      return put<ByteValues>(w);
    case ValueForm::sign:
      return put<SignValues>(w);
    case ValueForm::two_bit:
      return put<TwoBitValues>(w);
  }
}

void add_values(ValueForm form, const DecodeCall& call, DecodedIndices indices, std::size_t most,
                const SparsePlan* plan) {
  const auto kernel = form == ValueForm::fp32   ? add_values_kernel<WholeValues>
                      : form == ValueForm::fp16 ? add_values_kernel<HalfValues>
                      : form == ValueForm::int8 ? add_values_kernel<ByteValues>
                      : form == ValueForm::sign ? add_values_kernel<SignValues>
                                                : add_values_kernel<TwoBitValues>;
  launch(kernel, blocks_for(most, kThreads), kThreads, call.stream, call.payload_dev, plan, indices, call.n,
         call.weight, call.acc_dev, call.result_dev);
}

}  // namespace gossamer::compress::cuda
