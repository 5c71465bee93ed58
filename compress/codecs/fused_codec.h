#pragma once
// Codecs that form g + e in the pass that encodes it.
#include "feedback_state.h"

namespace gossamer::compress {

/// encode is the same pass as encode_feedback, without a state.
class FusedCodec : public Codec {
 public:
  std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const final {
    return write(x, nullptr, key, workspace, out);
  }
  std::size_t encode_feedback(std::span<const float> g, FeedbackState& state, RandomKey key,
                              Workspace& workspace, std::span<std::byte> out) const final {
    require_feedback(*this);
    return write(g, &state, key, workspace, out);
  }

 private:
  /// Writes the payload of v = g + e, and leaves the new e in state; v = g where state is null.
  virtual std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey key,
                            Workspace& workspace, std::span<std::byte> out) const = 0;
};

}  // namespace gossamer::compress
