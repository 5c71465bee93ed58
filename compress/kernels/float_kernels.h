#pragma once
// Floats of 32 or 16 bits as they stand in a payload. CPU, Highway, dispatched at run time.
#include <cmath>
#include <cstddef>

namespace gossamer::compress {

enum class FloatFormat {
  fp32,
  fp16,  ///< IEEE binary16
  bf16   ///< the upper half of a 32-bit float
};
constexpr std::size_t bytes_of(FloatFormat format) { return format == FloatFormat::fp32 ? 4 : 2; }

/// fp16 stands for half · 2^k; for the other formats k = 0.
struct FloatScale {
  explicit FloatScale(int k = 0)
      : down{std::ldexp(1.0f, -k / 2), std::ldexp(1.0f, -k - -k / 2)},
        up{std::ldexp(1.0f, k / 2), std::ldexp(1.0f, k - k / 2)},
        largest(k == 0 ? 65504.0f : 32752.0f) {}
  float down[2];  ///< 2^-k in two factors, since it may lie outside float's range
  float up[2];    ///< 2^k
  float largest;  ///< halves are lowered to this, the largest under 2¹⁵; for k = 0 no entry may be larger
};

/// n entries that are rounded and sent.
struct FloatInput {
  const float* g;  ///< null: v = e
  float* e;        ///< null: v = g. Else v = g + e, and then e ← v − what is sent
  std::size_t n;
};
struct FloatsSent {
  std::size_t n;    ///< those in front of the first 32 among which there is one that may not be sent
  float magnitude;  ///< the largest |v| of these
};
/// Rounds v to nearest, ties to even; in bf16 what would round to Inf becomes the largest finite number. Ends
/// in front of the 32 entries with one that is NaN or Inf, or in fp16 with k = 0 above 65504.
FloatsSent send_floats(FloatFormat format, const FloatScale& scale, const FloatInput& input, std::byte* out);

/// acc += weight · the n values; false where one of them is not finite (acc is then no more of use).
bool add_floats(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight, float* acc,
                std::size_t n);

/// out ← factor·x + 0 + what came, n floats of 32 bits each, in this order. x or came may be null: without
/// that term. False where a sum is not finite, as it is not where a term is not.
bool sum_floats(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out);

/// Whether all n floats of 32 bits are finite.
bool finite_floats(const std::byte* values, std::size_t n);

}  // namespace gossamer::compress
