#include "select_kernels_inline.h"

namespace gossamer::compress {

Emitted emit_reaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                      MomentSums* sums) {
  plain::MomentBlocks moments;
  const Emitted emitted =
      plain::emit_reaching_from(source, 0, 0, threshold, first, list, sums == nullptr ? nullptr : &moments);
  if (sums != nullptr) *sums = moments.total();
  return emitted;
}

std::size_t emit_equal(std::span<const float> v, MagnitudeBits magnitude, std::size_t enough,
                       std::uint32_t first, EntryList& list) {
  return plain::emit_equal_from(v, 0, 0, magnitude, enough, first, list);
}

bool all_finite(const Source& source) { return plain::all_finite(source); }

std::size_t count_reaching(std::span<const float> v, MagnitudeBits threshold) {
  return plain::count_reaching(v, threshold);
}

}  // namespace gossamer::compress
