#include "float_kernels.h"
#include "float_kernels_inline.h"

namespace gossamer::compress {

FloatsSent send_floats(FloatFormat format, const FloatScale& scale, const FloatInput& input, std::byte* out) {
  return plain::send_floats(format, scale, input, out);
}

bool add_floats(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight, float* acc,
                std::size_t n) {
  return plain::add_floats(format, scale, in, weight, acc, n);
}

}  // namespace gossamer::compress
