#include "threshold_search.h"

#include "order_statistics.cuh"
#include "select_sample.h"
#include "select_search.h"

namespace gossamer::compress::cuda {
namespace {

constexpr std::size_t kBlock = 4096;

constexpr bool takes_moments(Selection method) {
  return method == Selection::bisect || method == Selection::ldte_bs || method == Selection::ldte_bs_paper;
}
/// Where exactly k are wanted no threshold is searched: all such methods give the same entries.
constexpr bool searches(Selection method) { return !selects_exactly(method); }

Sample sample_of(Selection method, std::size_t n, std::size_t k) {
  if (!searches(method) || method == Selection::ldte_bs_paper) return {};
  const SampleWish wish = takes_moments(method) ? surveyed(k) : aimed(k);
  return plan_sample(n, wish.wanted, false, wish.weight);
}

/// The ranks that every answer follows from: k, what cut_in_list is asked for, one more than fits, one more
/// than the CPU's list holds. A rank past the end is left out: no threshold has so many entries.
struct RankPlan {
  RankPlan(Selection method, std::size_t n, std::size_t k) {
    ranks.of[0] = k;
    ranks.count = 1;
    if (!searches(method)) return;
    const auto add = [&](std::size_t rank) {
      if (rank > n) return Ranks::kMost;
      ranks.of[ranks.count] = rank;
      return ranks.count++;
    };
    quarter = add(k + k / 4);
    past_most = add(k + k / 2 + 1);
    past_room = add(list_room(n, k) + 1);
  }
  Ranks ranks{};
  unsigned quarter = Ranks::kMost, past_most = Ranks::kMost, past_room = Ranks::kMost;
};

/// Σ of a block in 32 lanes, combined as plain::MomentLanes does, and the largest of all.
__global__ void block_moments_kernel(Input input, std::size_t n, MomentRoom room) {
  std::uint32_t most = 0;
  for (std::size_t b = warp_of_grid(); b * kBlock < n; b += warps_in_grid()) {
    float sum = 0, l1 = 0, squares = 0;
    for (std::size_t i = b * kBlock + lane_of_warp(); i < least((b + 1) * kBlock, n); i += kWarp) {
      const float v = input.value(i);
      sum += v;
      l1 += absolute(v);
      squares += v * v;
      most = magnitude_of(v) > most ? magnitude_of(v) : most;
    }
    for (int other = 16; other > 0; other /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, other);
      l1 += __shfl_xor_sync(kAllLanes, l1, other);
      squares += __shfl_xor_sync(kAllLanes, squares, other);
    }
    if (lane_of_warp() != 0) continue;
    room.sum[b] = sum;
    room.l1[b] = l1;
    room.squares[b] = squares;
  }
  for (int other = 16; other > 0; other /= 2) {
    const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, most, other);
    most = theirs > most ? theirs : most;
  }
  if (lane_of_warp() == 0 && most > 0) atomicMax(room.largest, most);
}

/// One block: sums of blocks combined pairwise, neighbours first; an odd one out waits.
__global__ void combine_moments_kernel(std::size_t blocks, MomentRoom room) {
  for (std::size_t step = 1; step < blocks; step *= 2) {
    for (std::size_t i = 2 * step * threadIdx.x; i + step < blocks; i += 2 * step * kThreads) {
      room.sum[i] += room.sum[i + step];
      room.l1[i] += room.l1[i + step];
      room.squares[i] += room.squares[i + step];
    }
    __syncthreads();
  }
}

/// One warp: where Σ|v| is beyond float's range, Σv and Σ|v| in the eight lanes of sums.h. Slow, and rare:
/// the vector is about to overflow.
__global__ void far_moments_kernel(Input input, std::size_t n, MomentRoom room) {
  if (is_finite(*room.l1)) return;
  const std::size_t whole = n / 8 * 8;
  const unsigned lane = lane_of_warp();
  double sum = 0, l1 = 0;
  for (std::size_t i = lane; lane < 8 && i < whole; i += 8) {
    sum += static_cast<double>(input.value(i));
    l1 += static_cast<double>(absolute(input.value(i)));
  }
  for (std::size_t i = whole; lane == 0 && i < n; ++i) {
    sum += static_cast<double>(input.value(i));
    l1 += static_cast<double>(absolute(input.value(i)));
  }
  for (int other = 4; other > 0; other /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, other);
    l1 += __shfl_xor_sync(kAllLanes, l1, other);
  }
  if (lane != 0) return;
  *room.far_sum = sum;
  *room.far_l1 = l1;
}

__global__ void sample_kernel(Input input, std::size_t n, std::size_t runs, const RandomKey* key,
                              float* sample) {
  const std::uint64_t draw = draw_of(*key);
  for (std::size_t i = thread_of_grid(); i < runs * kSampleRun; i += threads_in_grid())
    sample[i] = input.value(start_of_run(n, runs, draw, i / kSampleRun) + i % kSampleRun);
}

/// What a search goes by.
struct Facts {
  std::size_t n, k;
  unsigned quarter, past_most, past_room;
  const RankState* ranks;
  MomentRoom moments;
  const RankState* sampled;
  Sample sample;
};

/// Answers as the CPU's Scan would, which keeps a list of what reached the last threshold that it counted
/// anew.
class Passes {
 public:
  constexpr explicit Passes(const Facts& facts) : facts_(facts) {}
  constexpr std::size_t size() const { return facts_.n; }
  constexpr int passes() const { return passes_; }
  constexpr void forget() { complete_ = false; }
  constexpr bool lists(MagnitudeBits t) const { return complete_ && t >= floor_; }
  /// k − 1, k, or one more than fits.
  constexpr std::size_t count(MagnitudeBits t) {
    if (!lists(t)) list(t);
    if (facts_.ranks[0].prefix < t) return facts_.k - 1;
    return magnitude(facts_.past_most) < t ? facts_.k : facts_.k + facts_.k / 2 + 1;
  }
  constexpr MagnitudeBits sampled_threshold(double, bool, double, std::uint64_t) {
    if (facts_.sample.runs == 0) return 0;
    complete_ = false;  // the sample takes the list's place
    return facts_.sample.rank == 0 ? 0 : facts_.sampled->prefix;
  }
  constexpr Cut cut_in_list(std::size_t) const { return {magnitude(facts_.quarter), 0}; }
  constexpr Moments moments(MagnitudeBits t) {
    list(t);
    const MomentRoom& sums = facts_.moments;
    const auto n = static_cast<double>(facts_.n);
    const bool near = is_finite(*sums.l1);
    const double mean = (near ? static_cast<double>(*sums.sum) : *sums.far_sum) / n;
    const double magnitude = (near ? static_cast<double>(*sums.l1) : *sums.far_l1) / n;
    return moments_of(mean, magnitude, *sums.squares, facts_.n, std::bit_cast<float>(*sums.largest));
  }

 private:
  /// 0 where there is no such rank.
  constexpr MagnitudeBits magnitude(unsigned rank) const {
    return rank < Ranks::kMost ? facts_.ranks[rank].prefix : 0;
  }
  constexpr void list(MagnitudeBits t) {
    ++passes_;
    floor_ = t;
    complete_ = magnitude(facts_.past_room) < t;
  }

  const Facts& facts_;
  MagnitudeBits floor_ = 0;
  bool complete_ = false;
  int passes_ = 0;
};

/// One thread: where a threshold fits it takes the place of the k-th largest.
__global__ void search_kernel(Selection method, Facts facts, const RandomKey* key, RankState* cut,
                              const SelectionState* selection) {
  if (threadIdx.x != 0) return;
  Passes passes(facts);
  Search<Passes> search(passes, facts.k, draw_of(*key));
  search.run(method, selection == nullptr ? 0 : selection->threshold);
  if (!search.fits()) return;
  cut->prefix = search.low();
  cut->rank = ~Count{0};
}

__global__ void keep_threshold_kernel(const RankState* cut, SelectionState* selection,
                                      const DeviceResult* result) {
  if (threadIdx.x == 0 && result->error == DeviceError::none)
    selection->threshold = std::bit_cast<float>(cut->prefix);
}

void find_moments(const Input& input, std::size_t n, const MomentRoom& room, void* stream) {
  const std::size_t blocks = ceil_divide(n, kBlock);
  cudaMemsetAsync(room.largest, 0, sizeof *room.largest, static_cast<cudaStream_t>(stream));
  launch(block_moments_kernel, blocks_for(blocks, kThreads / kWarp), kThreads, stream, input, n, room);
  launch(combine_moments_kernel, 1, kThreads, stream, blocks, room);
  launch(far_moments_kernel, 1, kWarp, stream, input, n, room);
}

void find_sampled(const Input& input, std::size_t n, const Sample& sample, const ThresholdRoom& room,
                  const EncodeCall& call) {
  launch(sample_kernel, blocks_for(sample.entries(), kThreads), kThreads, call.stream, input, n, sample.runs,
         call.key_dev, room.sample);
  const Entries entries = {{.g = room.sample}, sample.entries(), nullptr, nullptr, room.search.state};
  count_bins<0>(entries, room.sampled, nullptr, call.stream);
  launch(choose_bin_kernel<0>, 1, kThreads, call.stream, room.sampled, room.sampled->bins, Count{sample.rank},
         nullptr, Count{0});
  narrow<1>(entries, room.sampled, call.stream);
  narrow<2>(entries, room.sampled, call.stream);
}

}  // namespace

ThresholdRoom take_threshold_room(Arena& arena, Selection method, std::size_t n, std::size_t k,
                                  std::size_t most) {
  ThresholdRoom room{};
  // One more for the sample.
  const unsigned ranks = searches(method) ? Ranks::kMost + 1 : 1;
  room.search = take_search_room(arena, n, most, ranks);
  if (!searches(method)) return room;
  if (room.search.ranks) room.sampled = room.search.ranks + Ranks::kMost;  // not where room is only measured
  room.sample = arena.take<float>(sample_of(method, n, k).entries());
  if (!takes_moments(method)) return room;
  const std::size_t blocks = ceil_divide(n, kBlock);
  for (float** sums : {&room.moments.sum, &room.moments.l1, &room.moments.squares})
    *sums = arena.take<float>(blocks);
  room.moments.far_sum = arena.take<double>(1);
  room.moments.far_l1 = arena.take<double>(1);
  room.moments.largest = arena.take<std::uint32_t>(1);
  return room;
}

void select_by(Selection method, const Input& input, std::size_t n, std::size_t k, const ThresholdRoom& room,
               const EncodeCall& call) {
  const RankPlan plan(method, n, k);
  const Sample sample = sample_of(method, n, k);
  clear_search(room.search, call.stream);
  // What reads the vector goes before find_ranks, which may write the residual in its place.
  if (takes_moments(method)) find_moments(input, n, room.moments, call.stream);
  if (sample.rank > 0) find_sampled(input, n, sample, room, call);
  find_ranks(input, n, plan.ranks, room.search, call.result_dev, call.stream);
  RankState* const ranks = room.search.ranks;
  if (searches(method)) {
    const Facts facts{
        n, k, plan.quarter, plan.past_most, plan.past_room, ranks, room.moments, room.sampled, sample};
    launch(search_kernel, 1, kWarp, call.stream, method, facts, call.key_dev, ranks, call.selection_dev);
  }
  take_cut(input, n, room.search, call.result_dev, call.stream);
  if (call.selection_dev != nullptr)
    launch(keep_threshold_kernel, 1, kWarp, call.stream, ranks, call.selection_dev, call.result_dev);
}

}  // namespace gossamer::compress::cuda
