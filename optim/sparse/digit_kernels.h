#pragma once
// Numbers that stand at known places of a text, many at a time.
#include <cstddef>
#include <cstdint>

namespace gossamer::optim {

/// What the CPU's vectors do of it; null where they are short.
struct DigitKernels {
  /// Of each 8 bytes of text the number at their end: up to 8 digits, behind a blank if less.
  void (*indices)(std::uint64_t* digits, std::size_t count) = nullptr;
  /// 16 bytes of text from where a value begins.
  struct Decimal {
    std::uint64_t first, second;
  };
  /// The nearest floats to the nearest doubles, as scan_decimal's, of: a minus or none, up to 7 digits, and a
  /// point with digits or none, then a blank. Nothing else but another first character may come. Tells which
  /// it does not know: of other numbers, and where digits behind the 16 bytes matter. Writes up to 7 more
  /// values.
  std::size_t (*values)(const Decimal* decimals, float* values, std::size_t count,
                        std::size_t* unknown) = nullptr;
};
DigitKernels digit_kernels();

}  // namespace gossamer::optim
