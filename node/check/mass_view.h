#pragma once
// MassView follows one peer's mass through one view, op by op, as the replica holds it: by number what it
// holds, what it has sent to others in all and what it has taken from each.
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "checkers.h"
#include "mass.h"
#include "sum_numbers.h"

namespace gossamer::node {

using Units = Mass::Units;  ///< an entry for each parameter, then one for each parcel's weight

std::uint64_t units_of(float value);
/// What a peer holds that begins with these parameters.
Units units_of(std::span<const float> parameters, std::size_t parcels);

/// What went from one incarnation to another, in any view: of each parcel hashes of the sender's sum after
/// each push, and how many of these are older than what the receiver has taken or stand for it.
class MassEdges {
 public:
  void push(const Incarnation& from, const Incarnation& to, ParcelId parcel, std::uint64_t hash) {
    edges_[{from, to, parcel}].sent.push_back(hash);
  }
  /// False where that is nothing that had been sent since the receiver last took some.
  bool take(const Incarnation& from, const Incarnation& to, ParcelId parcel, std::uint64_t hash);

 private:
  struct Edge {
    std::vector<std::uint64_t> sent{};
    std::size_t taken = 0;
  };
  std::map<std::tuple<Incarnation, Incarnation, ParcelId>, Edge> edges_;
};

class MassView {
 public:
  /// seats: of the view, by their numbers; sums: by number, as they stand when it begins.
  MassView(PeerId self, std::vector<Incarnation> seats, const Plan& plan, std::vector<Units> sums,
           MassEdges& edges, Findings& findings);

  void on_op(const Op& op, const DataView& after);

  const SumNumbers& numbers() const { return numbers_; }
  const std::vector<Incarnation>& seats() const { return seats_; }
  /// As they stood after the last op.
  const std::vector<Units>& sums() const { return sums_; }
  /// What its steps took.
  const Units& spent() const { return spent_; }

 private:
  void run(const op::Push& o, const DataView& after);
  void run(const op::Absorb& o, const DataView& after);
  void run(const op::Ratio& o, const DataView& after);
  bool in(Range r, ParcelId parcel, std::size_t k) const {
    return (k >= r.begin && k < r.begin + r.size) || k == entries_ + parcel;
  }
  template <class Spent>
  void check_kept(Range r, ParcelId parcel, const DataView& after, Spent&& spent);
  void check_share(const op::Push& o, std::uint32_t number, const DataView& after, std::span<const float> u);
  std::uint64_t hash_of(const Units& sum, Range r, ParcelId parcel) const;

  PeerId self_;
  std::vector<Incarnation> seats_;
  SharedList<Parcel> parcels_;
  SumNumbers numbers_;
  std::vector<Units> sums_;
  std::size_t entries_;
  Units spent_;
  MassEdges& edges_;
  Findings& findings_;
};

/// What the view holds by its numbers.
std::vector<Units> sums_in(const DataView& view, const SumNumbers& numbers);

}  // namespace gossamer::node
