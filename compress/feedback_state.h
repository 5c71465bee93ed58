#pragma once
// What encode_feedback needs of a state before it reads it.
#include <span>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// Throws CodecError where a codec may not run under feedback; every encode_feedback of one that might not
/// calls it first.
void require_feedback(const Codec& codec);
/// Throws EncodeError where the state is that of a vector of another size.
void require_size(const FeedbackState& state, std::size_t n);
/// Makes the state one of n entries whose e is pending in buckets of the given size.
void make_lazy(FeedbackState& state, std::size_t n, std::size_t bucket);

}  // namespace gossamer::compress
