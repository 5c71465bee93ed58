#pragma once
// Mass is push-sum's, in 64-bit fixed point: what a peer holds, what it has sent to each neighbour since the
// start, and what it has taken from each. Arithmetic is modulo 2⁶⁴, so that sums may run for ever and not one
// unit is lost; in floats, sums that grow lose the small amounts that are added to them.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "extension.h"
#include "parcel.h"
#include "planted.h"

namespace gossamer::node {

namespace op {
/// held −= the step in g; then of what is held, each share goes over to the sum of that number, and the
/// parcel's weight likewise. Where keep_least > 0 the step is first scaled by the weight over its mean of
/// late; and where less weight would be left than that, all shares are lowered by one factor so that this
/// much is left, or all that there is. Each share is answered by Encoded, its payload the sum, its tag the
/// sum's number.
struct Push {
  Range range;
  ParcelId parcel;
  Round round;
  std::vector<std::pair<std::uint32_t, float>> shares;  ///< number, share ≥ 0; at most 1 together
  float keep_least;
};
/// held += payload − sum; sum = payload: what came since the last such message
struct Absorb {
  Range range;
  ParcelId parcel;
  std::uint32_t sum;
  Payload payload;
};
/// x ← held / the parcel's weight
struct Ratio {
  Range range;
  ParcelId parcel;
};
}  // namespace op

/// One unit is 2⁻⁴⁰ of a parameter, and of a weight; what is held may be up to 2²³ either way, and more is an
/// error, not another number.
constexpr double kMassOne = 0x1p40;

/// Of a payload of that many entries, the weight included.
constexpr std::size_t mass_payload_bytes(std::size_t entries) {
  return (entries + 1) * sizeof(std::uint64_t);
}

/// Buffers ("sums") of one entry for each parameter and, behind those, one for the weight w of each parcel.
/// Number 0 is what is held: x·w at the start, with w = 1; the others start at 0.
class Mass final : public Extension {
 public:
  Mass(std::span<const float> x0, std::size_t parcels, std::size_t sums, Planted planted = {});

  void run(const std::any& command, const SlotAt& at, const PostEvent& post) override;

  void archive(Archive archive) override;

  /// held −= u; then each share's part of what is held goes over to its sum. u is first scaled in its place
  /// where the operation says so. Throws std::runtime_error where u is not finite, or what is held beyond
  /// what fits.
  void push(const op::Push& o, std::span<float> u);
  /// What the sum holds of the range, then the parcel's weight; 8 bytes each, little-endian.
  Payload payload(std::uint32_t sum, Range range, ParcelId parcel) const;
  /// held += payload − sum; sum = payload. Throws std::runtime_error for a payload of another length, and
  /// where what is held would be beyond what fits.
  void absorb(const op::Absorb& o);
  /// x = held / w. Throws std::runtime_error where nothing is held.
  void ratio(const op::Ratio& o, std::span<float> x) const;

  /// Empty where there is no such sum.
  std::span<const std::uint64_t> sum(std::uint32_t number) const {
    return number < sums_.size() ? std::span<const std::uint64_t>(sums_[number])
                                 : std::span<const std::uint64_t>();
  }

 private:
  bool weight_may_come(const op::Absorb& o) const;
  std::size_t weight_at(ParcelId parcel) const { return entries_ + parcel; }
  [[noreturn]] void overflow(ParcelId parcel) const;
  void move(const std::vector<std::pair<std::uint32_t, double>>& shares, std::size_t entry);

  std::size_t entries_;
  std::vector<std::vector<std::uint64_t>> sums_;
  std::vector<double> usual_weight_;  ///< of each parcel
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node
