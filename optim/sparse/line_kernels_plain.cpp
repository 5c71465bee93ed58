// Where there is no Highway.
#include "digit_kernels.h"
#include "line_kernels.h"

namespace gossamer::optim {

LineKernels line_kernels() { return {}; }
DigitKernels digit_kernels() { return {}; }

}  // namespace gossamer::optim
