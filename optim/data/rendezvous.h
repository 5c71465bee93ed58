#pragma once
// Rendezvous deals rows to peers that come and go, by highest random weight (Thaler, Ravishankar: Using
// Name-Based Mappings to Increase Hit Rates, IEEE/ACM Transactions on Networking 6(1), 1998): a peer has a
// weight for each row, drawn from its name and the row's number, and a row goes to the greatest among those
// that are there. So the rows of a peer that goes are spread over the others, and a newcomer takes some of
// each; no other row moves.
//
// Rows were dealt once before that: each has a home. Of a row's weights among all homes its own takes the
// greatest, and gives the one that has it its own in exchange. So a row is at home while its home is there,
// unless a newcomer beyond all homes has a greater weight still.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gossamer/optim/data.h"

namespace gossamer::optim {

std::uint64_t hash_name(std::string_view name);

class Rendezvous {
 public:
  using Shards = std::vector<std::vector<std::uint32_t>>;  ///< rows by peer, ascending

  /// members: those that are there, in any order; at least one. Peers of a greater batch have more rows.
  Rendezvous(std::uint64_t seed, std::vector<RowHome> homes, std::vector<RowHome> members);

  std::size_t homes() const { return homes_; }
  /// Where the member stands among the homes; homes() where it is none of them.
  std::size_t home_of(std::size_t member) const { return place_[member] < homes_ ? place_[member] : homes_; }
  std::vector<std::size_t> home_batches() const;

  /// The member that has the row, where each has as many as fall to it. home: of the row, its place among
  /// them.
  std::size_t holder(std::uint64_t row, std::uint32_t home) const;
  /// The rows of each member; all rows. home_of_row: by row, a place among the homes. There are at least as
  /// many rows as members. even: in proportion to the batches to within a row; who has a row too much gives
  /// up those that are not at home first, then those of the least weight, to who has the greatest of those
  /// with too few. Else nobody is left without a row, no more.
  Shards deal(std::span<const std::uint32_t> home_of_row, bool even) const;

 private:
  /// What a peer's weight for the row is, by its place.
  double drawn(std::size_t place, std::uint64_t row) const;
  class Weights;
  std::vector<std::size_t> even_shares(std::size_t rows) const;
  void give_up(std::span<const std::uint32_t> home_of_row, std::size_t member, std::size_t keep,
               std::vector<std::uint32_t>& owner) const;

  std::size_t homes_;
  std::vector<std::uint64_t> keys_;    ///< of homes and those beyond: of the weights
  std::vector<std::size_t> batches_;   ///< the same
  std::vector<std::size_t> place_;     ///< by member
  std::vector<std::uint32_t> member_;  ///< by place; kNobody: it is not there
  bool uneven_ = false;                ///< of the batches
};

}  // namespace gossamer::optim
