#pragma once
#include <span>

namespace gossamer::optim {

/// Whether no entry is NaN or Inf. Costs no more than reading x once.
bool all_finite(std::span<const float> x);
/// Whether no entry is NaN or larger than the bound; the same.
bool all_within(std::span<const float> x, float bound);

}  // namespace gossamer::optim
