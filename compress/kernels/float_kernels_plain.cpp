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

bool sum_floats(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out) {
  return plain::sum_floats(factor, x, came, n, out);
}

bool finite_floats(const std::byte* values, std::size_t n) { return plain::finite_floats(values, n); }

}  // namespace gossamer::compress
