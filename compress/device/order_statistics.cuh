#pragma once
// Magnitudes of given ranks: histograms of the leading 11 bits, of the next 10 and of the last 10.
#include "device.cuh"
#include "scan.cuh"
#include "selection.h"

namespace gossamer::compress::cuda {

using Count = unsigned long long;
inline constexpr unsigned kRows = 16;
inline constexpr std::size_t kTileEntries = std::size_t{kThreads} * kRows;
inline constexpr std::size_t kHistogramBlocks = 1024;  ///< each flushes its bins once
// Of the three histograms: which bits they count, how many bins they have and where those stand.
constexpr unsigned shift_of(unsigned pass) { return pass == 0 ? 20 : pass == 1 ? 10 : 0; }
constexpr unsigned bins_of(unsigned pass) { return pass == 0 ? 2048 : 1024; }
constexpr unsigned first_bin_of(unsigned pass) { return pass == 0 ? 0 : 1024 + 1024 * pass; }

/// The vector, or the candidates where they are listed.
struct Entries {
  Input input;
  std::size_t n;
  const std::uint32_t* list_indices;
  const float* list_values;
  const SearchState* state;

  __device__ bool listed() const { return list_values != nullptr && state->listed_fit != 0; }
  __device__ std::size_t count() const { return listed() ? state->listed : n; }
  __device__ float value(std::size_t i) const { return listed() ? list_values[i] : input.value(i); }
  __device__ std::uint32_t index(std::size_t i) const {
    return listed() ? list_indices[i] : static_cast<std::uint32_t>(i);
  }
};

struct SharedBins {
  std::uint32_t count[2048];
};

/// Counts the bits of pass `kPass` of those entries whose higher bits are the rank's prefix. result: null
/// where entries are finite.
template <unsigned kPass>
__global__ void histogram_kernel(Entries entries, RankState* rank, DeviceResult* result) {
  auto& mine = shared<SharedBins>().count;
  for (unsigned b = threadIdx.x; b < bins_of(kPass); b += kThreads) mine[b] = 0;
  __syncthreads();
  const std::size_t count = entries.count();
  const std::uint32_t prefix = kPass == 0 ? 0 : rank->prefix;
  for (std::size_t start = std::size_t{blockIdx.x} * kTileEntries; start < count;
       start += std::size_t{gridDim.x} * kTileEntries) {
    float v[kRows];
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = start + r * kThreads + threadIdx.x;
      v[r] = i < count ? entries.value(i) : 0.0f;
      if (kPass == 0 && result != nullptr && !is_finite(v[r]))
        refuse_entry(result, i, DeviceError::not_finite);
    }
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = start + r * kThreads + threadIdx.x;
      const std::uint32_t magnitude = magnitude_of(v[r]);
      const bool counts = i < count && (kPass == 0 || magnitude >> shift_of(kPass - 1) == prefix);
      const unsigned bin = magnitude >> shift_of(kPass) & (bins_of(kPass) - 1);
      // Neighbours often fall into one bin.
      const unsigned first = __shfl_sync(kAllLanes, bin, 0);
      if (__all_sync(kAllLanes, counts && bin == first) != 0) {
        if (lane_of_warp() == 0) atomicAdd(&mine[bin], kWarp);
      } else if (counts) {
        atomicAdd(&mine[bin], 1u);
      }
    }
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < bins_of(kPass); b += kThreads) {
    if (mine[b] != 0) atomicAdd(&rank->bins[first_bin_of(kPass) + b], Count{mine[b]});
  }
}

/// One block: the bin of the entry of this rank from above becomes part of the prefix. bins: of the pass.
/// list: null, or what is told from which bin on candidates are listed.
template <unsigned kPass>
__global__ void choose_bin_kernel(RankState* state, const Count* bins, Count k, SearchState* list,
                                  Count capacity) {
  constexpr unsigned kEach = bins_of(kPass) / kThreads;
  const Count rank = kPass == 0 ? k : state->rank;
  const unsigned top = bins_of(kPass) - 1 - threadIdx.x * kEach;
  Count mine = 0, all;
  for (unsigned b = 0; b < kEach; ++b) mine += bins[top - b];
  Count above = scan_block(mine, all);
  for (unsigned b = 0; b < kEach; ++b) {
    const Count in_bin = bins[top - b];
    if (above < rank && rank <= above + in_bin) {
      const unsigned bin = top - b;
      state->prefix = kPass == 0 ? bin : state->prefix << 10 | bin;
      state->rank = rank - above;
      if (list != nullptr) {
        list->list_from = bin;
        list->listed_fit = above + in_bin <= capacity ? 1u : 0u;
      }
    }
    above += in_bin;
  }
}

template <unsigned kPass>
void count_bins(const Entries& entries, RankState* rank, DeviceResult* result, void* stream) {
  launch(histogram_kernel<kPass>, least(blocks_for(entries.n, kTileEntries), kHistogramBlocks), kThreads,
         stream, entries, rank, result);
}

/// After a first pass: what is left of a magnitude's bits.
template <unsigned kPass>
void narrow(const Entries& entries, RankState* rank, void* stream) {
  count_bins<kPass>(entries, rank, nullptr, stream);
  launch(choose_bin_kernel<kPass>, 1, kThreads, stream, rank, rank->bins + first_bin_of(kPass), Count{0},
         nullptr, Count{0});
}

}  // namespace gossamer::compress::cuda
