// Exact selection on the device. A histogram of the leading 11 bits of all magnitudes tells the bin of the
// k-th largest; one ordered compaction lists the entries from that bin on, and all that is left is done on
// the list. Where too many entries share that bin the list does not hold them, and the same kernels go over
// the vector instead.
#include "selection.h"

#include "order_statistics.cuh"

namespace gossamer::compress::cuda {
namespace {

constexpr unsigned kWarps = kThreads / kWarp;
constexpr std::size_t kCompactBlocks = 4096;  ///< take tiles in turn
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
  compact(job, {state->list_from << shift_of(0), ~Count{0}}, true, result);
}

__global__ void take_cut_kernel(Compaction job, const RankState* cut, DeviceResult* result) {
  compact(job, {cut->prefix, cut->rank}, !job.entries.listed(), result);
}

__global__ void take_reaching_kernel(Compaction job, std::uint32_t cut, DeviceResult* result) {
  compact(job, {cut, ~Count{0}}, true, result);
}

std::size_t compact_blocks(std::size_t n) { return least(ceil_divide(n, kTileEntries), kCompactBlocks); }

Entries whole_of(const Input& input, std::size_t n, const SearchRoom& room) {
  return {input, n, nullptr, nullptr, room.state};
}
Entries entries_of(const Input& input, std::size_t n, const SearchRoom& room) {
  return {input, n, room.list_indices, room.list_values, room.state};
}

}  // namespace

SearchRoom take_search_room(Arena& arena, std::size_t n, std::size_t most, unsigned ranks) {
  SearchRoom room{};
  room.most = most;
  const std::size_t before = arena.bytes(), tiles = ceil_divide(n, kTileEntries);
  room.state = arena.take<SearchState>(1);
  room.ranks = arena.take<RankState>(ranks);
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

void clear_search(const SearchRoom& room, void* stream) {
  cudaMemsetAsync(room.state, 0, room.cleared, static_cast<cudaStream_t>(stream));
}

void find_ranks(const Input& input, std::size_t n, const Ranks& ranks, const SearchRoom& room,
                DeviceResult* result, void* stream) {
  const Entries whole = whole_of(input, n, room), entries = entries_of(input, n, room);
  count_bins<0>(whole, room.ranks, result, stream);
  for (unsigned r = 0; r < ranks.count; ++r) {
    launch(choose_bin_kernel<0>, 1, kThreads, stream, room.ranks + r, room.ranks->bins, Count{ranks.of[r]},
           r + 1 == ranks.count ? room.state : nullptr, Count{room.capacity});
  }
  launch(list_kernel, compact_blocks(n), kThreads, stream,
         Compaction{whole, room.list_indices, room.list_values, room.capacity, &room.state->listed,
                    room.above[0], room.equal[0], &room.state->ticket[0]},
         result);
  for (unsigned r = 0; r < ranks.count; ++r) {
    narrow<1>(entries, room.ranks + r, stream);
    narrow<2>(entries, room.ranks + r, stream);
  }
}

void take_cut(const Input& input, std::size_t n, const SearchRoom& room, DeviceResult* result, void* stream) {
  launch(take_cut_kernel, compact_blocks(n), kThreads, stream,
         Compaction{entries_of(input, n, room), room.chosen.indices, room.chosen.values, room.most,
                    room.chosen.count, room.above[1], room.equal[1], &room.state->ticket[1]},
         room.ranks, result);
}

void select_reaching(const Input& input, std::size_t n, float cut, const SearchRoom& room,
                     DeviceResult* result, void* stream) {
  clear_search(room, stream);
  launch(take_reaching_kernel, compact_blocks(n), kThreads, stream,
         Compaction{whole_of(input, n, room), room.chosen.indices, room.chosen.values, n, room.chosen.count,
                    room.above[0], room.equal[0], &room.state->ticket[0]},
         bits_of(cut), result);
}

}  // namespace gossamer::compress::cuda
