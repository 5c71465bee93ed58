#pragma once
// A Parcel is the unit of transfer: a layer, or a slice of a large one.
#include <vector>

#include "data_plane.h"
#include "gossamer/optim/model.h"

namespace gossamer::node {

struct Parcel {
  std::size_t layer;
  Range range;
  bool state = false;  ///< as of the layer
  bool dense = false;  ///< goes dense in every round, whatever the job's codec
};

/// Parcels in layer order; a layer of more than `largest` entries is cut into equal slices of at most that
/// many, starting at multiples of 16 floats.
std::vector<Parcel> make_parcels(const std::vector<optim::Layer>& layers, std::size_t largest);

/// Slice `index` of `count` of a range: equal parts, starts at multiples of 16 floats; the last may be short
/// or empty.
Range slice_of(Range range, std::size_t index, std::size_t count);

}  // namespace gossamer::node
