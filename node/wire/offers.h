#pragma once
// Offers tell, while peers join, from which checkpoints each of them can go on, and under which number those
// of the run that begins go together. Neighbours tell each other all that they know until everyone knows all.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ids.h"

namespace gossamer::node {

class Offers {
 public:
  struct Offer {
    std::uint64_t started = 0;  ///< by the peer's own clock: a later start's replaces it; 0: not known yet
    std::vector<Round> rounds{};
    bool operator==(const Offer&) const = default;
  };
  /// Nobody asks, and nothing is waited for.
  Offers() = default;
  /// rounds: of its checkpoints that are whole, ascending; none where the run begins from the start.
  Offers(std::size_t peers, PeerId self, std::uint64_t started, std::vector<Round> rounds);

  bool asked() const { return !by_peer_.empty(); }
  bool complete() const;
  /// Takes over what is newer than here; true where anything was.
  bool merge(const Offers& theirs);
  /// The number under which the checkpoints of this run go together: the first peer's start.
  std::uint64_t run() const { return asked() ? by_peer_.front().started : 0; }
  /// The newest round that all offer.
  std::optional<Round> newest_common() const;
  const std::vector<Offer>& by_peer() const { return by_peer_; }

  /// Of each peer its start, how many rounds it offers, and these as differences. Numbers as of varint.h.
  std::vector<std::byte> to_bytes() const;
  /// Empty where the bytes are none of to_bytes.
  static std::optional<Offers> from_bytes(std::span<const std::byte> bytes);
  friend bool operator==(const Offers& a, const Offers& b) { return a.by_peer_ == b.by_peer_; }

 private:
  PeerId self_ = 0;
  std::vector<Offer> by_peer_;
};

}  // namespace gossamer::node
