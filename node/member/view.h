#pragma once
// A View is who takes part at a time. Each has a worker, an exchange and a data plane of its own.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ids.h"
#include "meeting.h"
#include "own.h"

namespace gossamer::node {

/// One start of a peer.
struct Seat {
  std::string name;
  std::uint64_t start = 0;  ///< 0: it has not been heard of yet
  bool dials = false;       ///< it cannot be reached, and can only dial out
  bool operator==(const Seat&) const = default;
};

std::uint32_t start_key(const Seat& seat);

struct View {
  std::vector<Seat> seats;    ///< those of the run's files first, in their order, then the others by name
  std::uint64_t attempt = 0;  ///< all of it must begin together; where that failed it is tried again
  /// Seats of which the first may owe the second what it had sent in earlier views; when it begins.
  std::vector<std::pair<PeerId, PeerId>> former{};

  /// XXH3 of the sorted names and starts: who sees the same members names the same view.
  std::uint64_t id() const;
  std::vector<std::string> names() const;
  std::vector<Incarnation> incarnations() const;
  /// Those of the seats that dial.
  std::vector<std::string> diallers() const;
  bool has(const std::string& name) const;
};

/// Whom a member says that it owes something in one view; others wait for another view.
constexpr std::size_t kMostOwed = 32;

/// Members that one says it does not hear though they live.
constexpr std::size_t kMostDeafTo = 16;

/// What a member says of itself with its signs of life.
struct Standing {
  bool begun = false;  ///< it knows that the run has begun: nobody waits for all of the file any more
  bool whole = false;  ///< it has what the run has learned
  std::uint64_t view = 0, attempt = 0;  ///< with which it waits to begin, or began; 0: none
  double share = 0;                     ///< of the run that is over, as far as its own state is
  std::uint64_t hash = 0, bytes = 0;    ///< of its state, as others can have it
  bool holds = false;  ///< it waits for those that it is cut off from: the view does not begin yet
  /// Where the run goes by samples: its share at which the last view began, and this member's own part since.
  double base = 0, part = 0;
  /// The newest view that it entered, whose members brought together what they had; 0: none.
  std::uint64_t last = 0;
  std::vector<std::uint32_t> owed{};  ///< seats of the view that it may owe something, ascending; kMostOwed
  Trained trained{};                  ///< what its model holds, by the seats of the view
  /// And of starts that are not of the view and may be going on elsewhere, by start_key.
  std::map<std::uint32_t, std::uint64_t> others{};
  /// Starts, by start_key and ascending, whose frames do not come though others hear them; kMostDeafTo.
  std::vector<std::uint32_t> deaf_to{};
  bool operator==(const Standing&) const = default;

  /// No longer than a member's word may be: where `trained` and `others` do not fit, they are not told.
  std::vector<std::byte> to_bytes() const;
};
/// Where the bytes are none of to_bytes, one that says nothing.
Standing standing_from(std::span<const std::byte> bytes);

}  // namespace gossamer::node
