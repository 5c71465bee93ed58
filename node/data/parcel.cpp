#include "parcel.h"

#include <algorithm>
#include <cassert>

namespace gossamer::node {

Range slice_of(Range range, std::size_t index, std::size_t count) {
  assert(count > 0 && index < count);
  const std::size_t step = ((range.size + count - 1) / count + 15) / 16 * 16;
  const std::size_t begin = std::min(range.size, index * step), end = std::min(range.size, begin + step);
  return {range.begin + begin, end - begin};
}

std::vector<Parcel> make_parcels(const std::vector<optim::Layer>& layers, std::size_t largest) {
  assert(largest >= 16);
  std::vector<Parcel> parcels;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Range whole{layers[l].offset, layers[l].size};
    const std::size_t count = std::max<std::size_t>(1, (whole.size + largest - 1) / largest);
    for (std::size_t s = 0; s < count; ++s)
      if (const Range r = slice_of(whole, s, count); r.size > 0) parcels.push_back({l, r, layers[l].state});
  }
  return parcels;
}

}  // namespace gossamer::node
