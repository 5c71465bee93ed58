// Where there is no Highway.
#include "one_values.h"

namespace gossamer::optim {

OneValueKernels one_value_kernels() { return {}; }

}  // namespace gossamer::optim
