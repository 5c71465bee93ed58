#pragma once
// Selection by a threshold on the device: the search of select_search.h, in one thread. Whatever it asks is
// known when it starts, from the magnitudes of four ranks, the moments and one sample.
#include <cstddef>
#include <cstdint>

#include "selection.h"

namespace gossamer::compress::cuda {

struct Input;

/// Σv, Σ|v|, Σv² of blocks of 4096, then of all in the first.
struct MomentRoom {
  float *sum, *l1, *squares;
  double *far_sum, *far_l1;  ///< where Σ|v| is beyond float's range
  std::uint32_t* largest;    ///< magnitude
};

struct ThresholdRoom {
  SearchRoom search;
  MomentRoom moments;
  float* sample;
  RankState* sampled;
};
/// As much as the method needs; `most` is selection_max.
ThresholdRoom take_threshold_room(Arena& arena, Selection method, std::size_t n, std::size_t k,
                                  std::size_t most);

/// As select_from on the CPU, the same entries; selection_dev may be null.
void select_by(Selection method, const Input& input, std::size_t n, std::size_t k, const ThresholdRoom& room,
               const EncodeCall& call);

}  // namespace gossamer::compress::cuda
