#pragma once
// The values of a sparse payload on the device, in the forms of sparse_values.h.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "call.h"
#include "selection.h"
#include "sparse_values.h"

namespace gossamer::compress::cuda {

struct Input;
struct SparsePlan;

/// What the values that are sent have in common.
struct ValueScale {
  float first, second;    ///< sign: the mean magnitude; two_bit: those of the small and of the large ones
  double middle;          ///< two_bit: small ones are at most this
  std::uint32_t largest;  ///< magnitude (fp16, int8)
};

/// Writes the chosen values where the plan says, and takes what they say from the residual.
void write_values(ValueForm form, const Input& input, const Chosen& chosen, std::size_t most,
                  const SparsePlan* plan, ValueScale* scale, const EncodeCall& call);

/// acc[starts[j] + sums[j + 1]] += weight · value j for the plan's count of entries; refuses an index past
/// the last entry and what is no number.
struct DecodedIndices {
  const unsigned long long *starts, *sums;
};
void add_values(ValueForm form, const DecodeCall& call, DecodedIndices indices, std::size_t most,
                const SparsePlan* plan);

}  // namespace gossamer::compress::cuda
