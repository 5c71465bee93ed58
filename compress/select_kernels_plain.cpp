#include "select_kernels_inline.h"

namespace gossamer::compress {

Emitted emit_reaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list) {
  return plain::emit_reaching_from(source, 0, 0, threshold, first, list);
}

std::size_t emit_equal(std::span<const float> v, MagnitudeBits magnitude, std::size_t enough,
                       std::uint32_t first, EntryList& list) {
  return plain::emit_equal_from(v, 0, 0, magnitude, enough, first, list);
}

MomentSums moment_sums(std::span<const float> v) {
  plain::MomentTree tree;
  for (std::size_t i = 0; i < v.size(); i += plain::kBlock) {
    plain::MomentLanes lanes;
    lanes.add(v.data() + i, std::min(plain::kBlock, v.size() - i));
    tree.add(lanes.total());
  }
  return tree.total();
}

}  // namespace gossamer::compress
