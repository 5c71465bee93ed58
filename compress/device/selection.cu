// Exact selection on the device. A histogram of the leading 11 bits of all magnitudes tells the bin of the
// k-th largest; one ordered compaction lists the entries from that bin on, and all that is left is done on
// the list. Where too many entries share that bin the list does not hold them, and the same kernels go over
// the vector instead.
#include "selection.h"

#include "device.cuh"
#include "scan.cuh"

namespace gossamer::compress::cuda {
namespace {

using Count = unsigned long long;
constexpr unsigned kRows = 16;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr std::size_t kTileEntries = std::size_t{kThreads} * kRows;
constexpr std::size_t kHistogramBlocks = 1024;  ///< each flushes its bins once
constexpr std::size_t kCompactBlocks = 4096;    ///< take tiles in turn
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

/// Counts the bits of pass `kPass` of those entries whose higher bits are the prefix.
template <unsigned kPass>
__global__ void histogram_kernel(Entries entries, Count* bins, DeviceResult* result) {
  auto& mine = shared<SharedBins>().count;
  for (unsigned b = threadIdx.x; b < bins_of(kPass); b += kThreads) mine[b] = 0;
  __syncthreads();
  const std::size_t count = entries.count();
  const std::uint32_t prefix = kPass == 0 ? 0 : entries.state->prefix;
  for (std::size_t start = std::size_t{blockIdx.x} * kTileEntries; start < count;
       start += std::size_t{gridDim.x} * kTileEntries) {
    float v[kRows];
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = start + r * kThreads + threadIdx.x;
      v[r] = i < count ? entries.value(i) : 0.0f;
      if (kPass == 0 && !is_finite(v[r])) refuse_entry(result, i, DeviceError::not_finite);
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
    if (mine[b] != 0) atomicAdd(&bins[b], Count{mine[b]});
  }
}

/// One block: the bin of the entry of this rank from above becomes part of the prefix.
template <unsigned kPass>
__global__ void choose_bin_kernel(SearchState* state, Count k, Count capacity) {
  constexpr unsigned kEach = bins_of(kPass) / kThreads;
  const Count* const bins = state->bins + first_bin_of(kPass);
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
      if (kPass == 0) state->listed_fit = above + in_bin <= capacity ? 1u : 0u;
    }
    above += in_bin;
  }
}

constexpr Count kSum = Count{1} << 62, kTotal = Count{2} << 62, kFlags = Count{3} << 62;

/// All before a tile, by decoupled look-back (Merrill & Garland 2016, "Single-pass parallel prefix scan with
/// decoupled look-back"): a word holds a tile's own sum, later that of all tiles up to it. One warp.
__device__ Count look_back(Count* words, std::size_t tile, Count own) {
  const unsigned lane = lane_of_warp();
  if (lane == 0) atomicExch(&words[tile], own | (tile == 0 ? kTotal : kSum));
  Count before = 0;
  for (std::size_t end = tile; end > 0;) {
    Count word = kTotal;  // before the first tile there is nothing
    if (lane < end) word = *static_cast<volatile Count*>(&words[end - 1 - lane]);
    while (__any_sync(kAllLanes, (word & kFlags) == 0) != 0) {
      __nanosleep(40);
      if (lane < end) word = *static_cast<volatile Count*>(&words[end - 1 - lane]);
    }
    const unsigned totals = __ballot_sync(kAllLanes, (word & kFlags) == kTotal);
    const unsigned last = totals == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(totals)) - 1);
    Count part = lane <= last ? word & ~kFlags : 0;
    for (int other = 16; other > 0; other /= 2) part += __shfl_xor_sync(kAllLanes, part, other);
    before += part;
    if (totals != 0) break;
    end -= kWarp;
  }
  if (lane == 0 && tile > 0) atomicExch(&words[tile], (before + own) | kTotal);
  return before;
}

/// What a compaction keeps: magnitudes above the threshold, and of those equal to it the first `ties`.
struct Cut {
  std::uint32_t threshold;
  Count ties;
};

struct Compaction {
  Entries entries;
  std::uint32_t* indices;
  float* values;
  std::size_t capacity;
  Count* count;
  Count* above;  ///< look-back words of the tiles
  Count* equal;
  Count* ticket;
};

struct SharedTile {
  Count tile, above_before, equal_before;
  std::uint32_t above[kWarps], equal[kWarps];
};

__device__ void compact(const Compaction& job, Cut cut, bool keeps, DeviceResult* result) {
  auto& tile_data = shared<SharedTile>();
  const std::size_t count = job.entries.count(), tiles = ceil_divide(count, kTileEntries);
  const unsigned warp = threadIdx.x / kWarp, lane = lane_of_warp(), lower = (1u << lane) - 1;
  for (;;) {
    if (threadIdx.x == 0) tile_data.tile = atomicAdd(job.ticket, Count{1});
    __syncthreads();
    const std::size_t tile = tile_data.tile;
    if (tile >= tiles) return;
    const std::size_t first = tile * kTileEntries + warp * kWarp * kRows + lane;
    float v[kRows];
    std::uint32_t above = 0, equal = 0;
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = first + r * kWarp;
      v[r] = i < count ? job.entries.value(i) : 0.0f;
      if (i < count && !is_finite(v[r])) refuse_entry(result, job.entries.index(i), DeviceError::not_finite);
      if (i < count && keeps) job.entries.input.keep(i, v[r], 0);
      if (i >= count) v[r] = 0;
      above +=
          static_cast<std::uint32_t>(__popc(__ballot_sync(kAllLanes, magnitude_of(v[r]) > cut.threshold)));
      equal += static_cast<std::uint32_t>(
          __popc(__ballot_sync(kAllLanes, i < count && magnitude_of(v[r]) == cut.threshold)));
    }
    if (lane == 0) {
      tile_data.above[warp] = above;
      tile_data.equal[warp] = equal;
    }
    __syncthreads();
    if (warp == 0) {
      Count all_above = 0, all_equal = 0;
      for (unsigned w = 0; w < kWarps; ++w) {
        all_above += tile_data.above[w];
        all_equal += tile_data.equal[w];
      }
      const Count a = look_back(job.above, tile, all_above), e = look_back(job.equal, tile, all_equal);
      if (lane == 0) {
        tile_data.above_before = a;
        tile_data.equal_before = e;
        const Count kept_equal = e + all_equal < cut.ties ? e + all_equal : cut.ties;
        if (tile + 1 == tiles) *job.count = a + all_above + kept_equal;
      }
    }
    __syncthreads();
    Count a = tile_data.above_before, e = tile_data.equal_before;
    for (unsigned w = 0; w < warp; ++w) {
      a += tile_data.above[w];
      e += tile_data.equal[w];
    }
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = first + r * kWarp;
      const std::uint32_t magnitude = magnitude_of(v[r]);
      const bool is_above = magnitude > cut.threshold, is_equal = i < count && magnitude == cut.threshold;
      const unsigned aboves = __ballot_sync(kAllLanes, is_above), equals = __ballot_sync(kAllLanes, is_equal);
      const Count my_equal = e + static_cast<Count>(__popc(equals & lower));
      const Count at =
          a + static_cast<Count>(__popc(aboves & lower)) + (my_equal < cut.ties ? my_equal : cut.ties);
      if ((is_above || (is_equal && my_equal < cut.ties)) && at < job.capacity) {
        job.indices[at] = job.entries.index(i);
        job.values[at] = v[r];
      }
      a += static_cast<Count>(__popc(aboves));
      e += static_cast<Count>(__popc(equals));
    }
    __syncthreads();  // the next tile overwrites what this one shared
  }
}

/// Candidates: all from the chosen bin on, where the list holds them.
__global__ void list_kernel(Compaction job, DeviceResult* result) {
  const SearchState* const state = job.entries.state;
  if (state->listed_fit == 0) return;
  compact(job, {state->prefix << shift_of(0), ~Count{0}}, true, result);
}

__global__ void take_largest_kernel(Compaction job, DeviceResult* result) {
  const SearchState* const state = job.entries.state;
  compact(job, {state->prefix, state->rank}, !job.entries.listed(), result);
}

__global__ void take_reaching_kernel(Compaction job, std::uint32_t cut, DeviceResult* result) {
  compact(job, {cut, ~Count{0}}, true, result);
}

std::size_t compact_blocks(std::size_t n) { return least(ceil_divide(n, kTileEntries), kCompactBlocks); }

template <unsigned kPass>
void narrow(const Entries& entries, std::size_t k, const SearchRoom& room, DeviceResult* result,
            void* stream) {
  launch(histogram_kernel<kPass>, least(blocks_for(entries.n, kTileEntries), kHistogramBlocks), kThreads,
         stream, entries, room.state->bins + first_bin_of(kPass), result);
  launch(choose_bin_kernel<kPass>, 1, kThreads, stream, room.state, Count{k}, Count{room.capacity});
}

void clear(const SearchRoom& room, void* stream) {
  cudaMemsetAsync(room.state, 0, room.cleared, static_cast<cudaStream_t>(stream));
}

}  // namespace

SearchRoom take_search_room(Arena& arena, std::size_t n, std::size_t most) {
  SearchRoom room{};
  const std::size_t before = arena.bytes(), tiles = ceil_divide(n, kTileEntries);
  room.state = arena.take<SearchState>(1);
  room.chosen.count = arena.take<Count>(1);
  for (unsigned pass = 0; pass < 2; ++pass) {
    room.above[pass] = arena.take<Count>(tiles);
    room.equal[pass] = arena.take<Count>(tiles);
  }
  room.cleared = arena.bytes() - before;
  room.capacity = least(n, n / 8 + 2 * kTileEntries);
  room.list_indices = arena.take<std::uint32_t>(room.capacity);
  room.list_values = arena.take<float>(room.capacity);
  room.chosen.indices = arena.take<std::uint32_t>(most);
  room.chosen.values = arena.take<float>(most);
  return room;
}

void select_largest(const Input& input, std::size_t n, std::size_t k, const SearchRoom& room,
                    DeviceResult* result, void* stream) {
  clear(room, stream);
  const Entries whole = {input, n, nullptr, nullptr, room.state};
  const Entries entries = {input, n, room.list_indices, room.list_values, room.state};
  narrow<0>(whole, k, room, result, stream);
  launch(list_kernel, compact_blocks(n), kThreads, stream,
         Compaction{whole, room.list_indices, room.list_values, room.capacity, &room.state->listed,
                    room.above[0], room.equal[0], &room.state->ticket[0]},
         result);
  narrow<1>(entries, k, room, result, stream);
  narrow<2>(entries, k, room, result, stream);
  launch(take_largest_kernel, compact_blocks(n), kThreads, stream,
         Compaction{entries, room.chosen.indices, room.chosen.values, k, room.chosen.count, room.above[1],
                    room.equal[1], &room.state->ticket[1]},
         result);
}

void select_reaching(const Input& input, std::size_t n, float cut, const SearchRoom& room,
                     DeviceResult* result, void* stream) {
  clear(room, stream);
  launch(take_reaching_kernel, compact_blocks(n), kThreads, stream,
         Compaction{{input, n, nullptr, nullptr, room.state},
                    room.chosen.indices,
                    room.chosen.values,
                    n,
                    room.chosen.count,
                    room.above[0],
                    room.equal[0],
                    &room.state->ticket[0]},
         bits_of(cut), result);
}

}  // namespace gossamer::compress::cuda
