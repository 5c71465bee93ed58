#pragma once
// Mass is push-sum's, in 64-bit fixed point: what a peer holds, what it has sent to each neighbour since the
// start, and what it has taken from each. Arithmetic is modulo 2⁶⁴, so that sums may run for ever and not one
// unit is lost; in floats, sums that grow lose the small amounts that are added to them.
//
// Sums belong to pairs of incarnations and outlive views: each peer takes along what it holds, and what it
// has sent to and taken from every incarnation that may come back, whether the next view links it to them or
// not. What an incarnation that cannot come back had been sent, less what had been taken from it, is written
// off. So of every peer, to the last unit,
//
//   held + Σ sent − Σ taken + written off = x·w as it began, w = 1, − steps
#include <cstdint>
#include <map>
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

/// So many times in a row an unchanged sum is sent before its receiver counts as having taken it.
constexpr std::size_t kTimesTold = 4;

/// What a sum is of.
struct MassSum {
  PeerId peer = 0;       ///< of the view
  bool sent = true;      ///< to that peer; else taken from it
  bool by_graph = true;  ///< else the view's graph does not link the two, and an earlier one's did
};

/// Buffers ("sums") of one entry for each parameter and, behind those, one for the weight w of each parcel.
/// Number 0 is what is held: x·w at the start, with w = 1; the others start at 0.
class Mass final : public Extension {
 public:
  using Units = std::vector<std::uint64_t>;
  /// sums: from number 1 on; those by the graph first.
  Mass(std::span<const float> x0, std::size_t parcels, std::vector<MassSum> sums, Planted planted = {});

  void run(const std::any& command, const SlotAt& at, const PostEvent& post) override;

  /// What is by the graph, since that is all that a run which goes on from there has.
  void archive(Archive archive) override;
  void save_own(const Archive& own, std::span<const Incarnation> seats) override;
  void restore_own(const Archive& own, const Passage& passage) override;

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

  /// What is kept of an incarnation that this view has not, or not in that direction; empty sums are 0.
  struct Aside {
    Units sent{}, taken{};
    bool owed = false;  ///< it may not have taken all that it was sent
  };
  const std::map<Incarnation, Aside>& aside() const { return aside_; }
  /// As long as the sums; empty: nothing was.
  std::span<const std::uint64_t> written_off() const { return written_off_; }
  /// held + Σ sent − Σ taken + written off
  Units balance() const;

 private:
  struct PairView {
    Units *sent = nullptr, *taken = nullptr;  ///< null: nothing
    bool owed = false;
  };
  std::map<Incarnation, PairView> pairs(std::span<const Incarnation> seats);
  void take_up(const Incarnation& whose, Aside pair, const Passage& passage);
  void write_off(const Aside& pair);
  bool owed(std::size_t number) const;
  bool weight_may_come(const op::Absorb& o) const;
  std::size_t weight_at(ParcelId parcel) const { return entries_ + parcel; }
  [[noreturn]] void overflow(ParcelId parcel) const;
  void move(const std::vector<std::pair<std::uint32_t, double>>& shares, std::size_t entry);

  std::size_t entries_;
  std::vector<MassSum> of_;  ///< number − 1
  std::vector<Units> sums_;
  std::vector<std::size_t> told_;     ///< parcels of sum number − 1 sent since it last grew
  std::vector<double> usual_weight_;  ///< of each parcel
  std::map<Incarnation, Aside> aside_;
  Units written_off_;
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node
