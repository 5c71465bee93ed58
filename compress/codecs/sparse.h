#pragma once
// What the codecs that send some entries share: encoding with or without feedback from one search.
#include "gossamer/compress/codec.h"
#include "gossamer/compress/feedback.h"
#include "gossamer/compress/selection.h"
#include "select_kernels.h"
#include "sparse_values.h"

namespace gossamer::compress {

/// What a payload says, for the residual.
struct Sent {
  std::size_t bytes = 0;                     ///< of the payload
  std::span<const std::uint32_t> indices{};  ///< each once
  ValueForm form = ValueForm::fp32;
  std::span<const std::byte> values{};  ///< within the payload, one for each index
};

/// Under feedback v is formed, written back and searched in one pass over memory; what was sent is then taken
/// from it in O(k).
class SparseCodec : public Codec {
 public:
  std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const final;
  std::size_t encode_selecting(std::span<const float> x, SelectionState& selection, RandomKey key,
                               Workspace& workspace, std::span<std::byte> out) const final;
  std::size_t encode_feedback(std::span<const float> g, FeedbackState& state, RandomKey key,
                              Workspace& workspace, std::span<std::byte> out) const final;
  /// MomentumCorrection::encode with this codec.
  std::size_t encode_momentum(std::span<const float> g, float momentum, MomentumState& state, RandomKey key,
                              Workspace& workspace, std::span<std::byte> out) const;

 private:
  /// Forms v and writes its payload. Throws EncodeError with nothing formed, or with all of it taken back
  /// (see Scan).
  virtual Sent encode_sparse(const Source& v, SelectionState& selection, RandomKey key, Workspace& workspace,
                             std::span<std::byte> out) const = 0;
};

/// Throws EncodeError unless state is empty or has n entries; `what` is its name.
void require_size(const LineVector<float>& state, std::size_t n, const char* what);

/// Every entry whose magnitude reaches threshold. NaN and Inf as in select_from.
Selected select_reaching(const Source& v, MagnitudeBits threshold, Workspace& workspace);

/// Forms v alone, and returns it; uses records() of the workspace. NaN and Inf as in select_from.
std::span<const float> form(const Source& v, Workspace& workspace);

}  // namespace gossamer::compress
