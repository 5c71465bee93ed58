#pragma once
#include <span>

namespace gossamer::optim {

/// Whether no entry is NaN or Inf. Costs no more than reading x once.
bool all_finite(std::span<const float> x);

}  // namespace gossamer::optim
