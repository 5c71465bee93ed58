#pragma once
// Modulo is Moniqua's code of parameters: where they lie in a cell of size B, to a few bits. Whoever has
// parameters of its own near them can tell the rest.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "extension.h"
#include "planted.h"

namespace gossamer::node {

namespace op {
/// rounded ← src rounded to a grid of the round's; answered by Encoded with tag 0, its payload the residues.
struct ModuloEncode {
  Range range;
  Slot src, rounded;
  std::uint64_t doublings;  ///< of the job's bound
  std::uint64_t doubles_at;
  Round round;
  ParcelId parcel;
};
/// sum += weight·(what the payload stands for, near `near`, − rounded), unless that would be wrong; then it
/// is answered by Encoded with tag kModuloOverflow and no payload.
struct ModuloDecodeAdd {
  Range range;
  Slot near, rounded, sum;
  float weight;
  std::uint64_t doublings;
  Payload payload;
  Round round;
  ParcelId parcel;
};
}  // namespace op
constexpr std::uint32_t kModuloOverflow = 1;

/// In front of every payload.
struct ModuloHeader {
  std::uint64_t doublings = 0;   ///< B is the round's bound times 2 to this
  std::uint64_t doubles_at = 0;  ///< round from which on it is doubled once more; 0: none is agreed on
  std::uint64_t hash = 0;        ///< of the rounded parameters, whole: tells a wrong reconstruction
};
/// Of a payload of that many entries, header included.
std::size_t modulo_payload_bytes(std::size_t entries, int bits);
/// Zeros where the payload is too short.
ModuloHeader read_modulo_header(const Payload& payload);

/// x_k is rounded to a grid of steps s = B/2^bits, displaced by a random part of a step r_k that all peers
/// draw alike: N_k = ⌊x_k/s + r_k⌋ stands for (N_k + ½ − r_k)·s, which is off by s/2 at most and by 0 in the
/// mean over r. N_k mod 2^bits is sent. A receiver takes the N of that residue that is nearest to its own
/// x_k: the right one where they differ by less than B·(½ − δ), δ = 2^−bits/2.
class Modulo final : public Extension {
 public:
  /// rate: the learning rate of a round over its peak. B follows it down, as what neighbours differ by does,
  /// by no more than 1/256 a round and to no less than 2⁻¹⁰ of the bound.
  Modulo(std::uint64_t seed, int bits, double bound, std::function<double(Round)> rate, Planted planted = {})
      : seed_(seed), bits_(bits), bound_(bound), rate_(std::move(rate)), planted_(planted) {}

  void run(const std::any& command, const SlotAt& at, const PostEvent& post) override;

  void archive(Archive archive) override;

  /// The payload of x; rounded ← what it stands for. Throws std::runtime_error where x is not finite or
  /// beyond 2⁵⁰ steps.
  /// Rounds ascend.
  Payload encode(const op::ModuloEncode& o, std::span<const float> x, std::span<float> rounded);
  /// sum += weight·(what the payload stands for − rounded), by x; false, and sum as it was, where the hash
  /// says that it would be something else. Throws std::runtime_error for a payload of another length.
  /// Of the round that was encoded last.
  bool decode_add(const op::ModuloDecodeAdd& o, std::span<const float> x, std::span<const float> rounded,
                  std::span<float> sum);

 private:
  void follow(Round round);
  double step(std::uint64_t doublings) const;
  std::uint64_t key(Round round, ParcelId parcel) const;

  std::uint64_t seed_;
  int bits_;
  double bound_;
  std::function<double(Round)> rate_;
  [[no_unique_address]] Planted planted_;
  Round next_ = 0;                   ///< the first round that scale_ has not followed yet
  double scale_ = 1;                 ///< of the bound, by the rate
  std::vector<std::int64_t> cells_;  ///< N of the parcel at hand
};

}  // namespace gossamer::node
