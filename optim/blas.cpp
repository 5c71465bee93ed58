#include <cblas.h>

#include <algorithm>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

void set_blas_threads(int threads) { openblas_set_num_threads(std::max(1, threads)); }

}  // namespace gossamer::optim
