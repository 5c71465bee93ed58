#pragma once
// Pieces of deep gradient compression (Lin et al. 2018) that stand between the gradient and a sparsifying
// codec. All state is the caller's, plain vectors that a checkpoint can hold; nothing here is sent.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// Momentum correction of one layer: velocity u and the part v of it that is not sent yet. Empty = zero.
struct MomentumState {
  LineVector<float> velocity;  ///< u
  LineVector<float> unsent;    ///< v
  SelectionState selection{};
};

/// A checkpoint, as of FeedbackState: after restore all goes on to the bit. restore throws StateError.
std::vector<std::byte> save(const MomentumState& state);
MomentumState restore_momentum(std::span<const std::byte> saved);

/// Deep gradient compression, algorithm 4: u ← m·u + g; v ← v + u; send C[v]; what is sent leaves v, and by
/// momentum factor masking u as well, so that stale momentum does not push an entry twice. The peer's
/// optimiser must then use no momentum of its own.
class MomentumCorrection {
 public:
  /// Throws std::invalid_argument unless 0 ≤ momentum < 1.
  explicit MomentumCorrection(float momentum);

  /// Encodes v + u, and in state leaves v and u zero exactly where an entry was sent, that is where the
  /// decoded value is not 0. What a lossy value form did not say of a sent entry stays in v: v ← v − decoded
  /// there, which is 0 for exact values. A sent value of 0 changes nothing, for nothing came of it. Throws as
  /// Codec::encode does, with state as Codec::encode_feedback leaves it; each layer needs a state of its own.
  std::size_t encode(const Codec& codec, std::span<const float> g, MomentumState& state, RandomKey key,
                     Workspace& workspace, std::span<std::byte> out) const;

 private:
  float momentum_;
};

/// Local gradient clipping, before accumulation: a layer or model of l2 norm above limit/√peers is scaled to
/// that, so that the sum over peers keeps to limit (deep gradient compression, section 3.2, N^(−1/2)).
/// norm is the l2 norm of all that is clipped together. Returns the factor ≤ 1 (1 where norm is 0; throws
/// std::invalid_argument unless limit > 0, peers > 0 and norm is finite and ≥ 0).
float local_clip_factor(double norm, double limit, std::size_t peers);
/// ‖g‖₂ in double, the same on every machine.
double l2_norm(std::span<const float> g);
/// Clips g as one: g ← factor·g. Returns the factor.
float clip_locally(std::span<float> g, double limit, std::size_t peers);

/// Density of an epoch (from 0) in warm-up: 25 %, then a quarter of that each epoch until final_density is
/// reached: 25, 6.25, 1.5625, 0.39 and 0.1 % for 0.001 (deep gradient compression, section 3.3). Throws
/// std::invalid_argument unless 0 < final_density ≤ 1.
double warm_up_density(std::size_t epoch, double final_density);

/// A density for some layers.
struct LayerDensity {
  std::string layer;         ///< its name, or the front of it followed by '*'
  std::size_t at_least = 0;  ///< only layers of so many entries
  double density;
};
/// Density of a layer: that of the first rule that fits it, otherwise the one all layers share.
double density_of_layer(std::span<const LayerDensity> rules, std::string_view layer, std::size_t entries,
                        double shared);

/// Small layers go dense under codecs of several bits and sparse ones: compressing them saves next to nothing
/// (QSGD, section 5: under 10 000 entries, where over 99 % of all parameters still are quantised). Codecs of
/// one bit take layers of any size, and those that send all numbers have nothing to leave.
inline constexpr std::size_t kSmallLayer = 10000;
bool stays_dense(const Codec& codec, std::size_t entries, std::size_t least = kSmallLayer);

}  // namespace gossamer::compress
