#pragma once
// Selection from a vector that is formed on the way.
#include "gossamer/compress/selection.h"
#include "select_kernels.h"

namespace gossamer::compress {

/// As select_largest, on the vector that source stands for; at the end it is formed. Throws EncodeError for
/// NaN or Inf, naming the first, with sum and velocity taken back (see Scan).
Selected select_from(Selection method, const Source& source, std::size_t k, RandomKey key,
                     SelectionState& state, Workspace& workspace);

}  // namespace gossamer::compress
