#pragma once
// Places tell which peers share a machine's cores: each knows its own place, and neighbours tell each other
// all that they know until everyone knows everyone's.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ids.h"
#include "machine.h"

namespace gossamer::node {

class Places {
 public:
  Places() = default;
  /// Nothing is known yet but `own`; own.machine 0: nobody asks, as in a simulation.
  Places(std::size_t peers, PeerId self, Place own);

  bool asked() const { return own_.machine != 0; }
  bool complete() const { return !asked() || unknown_ == 0; }
  /// Takes over what is not known here; true where anything was.
  bool merge(const Places& theirs);

  CoreSharing sharing() const;

  /// Runs of peers at one place: machine, allotment and number of peers, 4 bytes each, little-endian.
  std::vector<std::byte> to_bytes() const;
  /// Empty where the bytes are none of to_bytes.
  static std::optional<Places> from_bytes(std::span<const std::byte> bytes);

  friend bool operator==(const Places& a, const Places& b) { return a.by_peer_ == b.by_peer_; }

 private:
  Place own_;
  std::vector<Place> by_peer_;
  std::size_t unknown_ = 0;
};

}  // namespace gossamer::node
