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
  /// Nobody asks, and nothing is waited for.
  Offers() = default;
  /// drawn: a number at random, not 0; the first peer's becomes the run's. rounds: of its checkpoints that
  /// are whole, ascending; none where the run begins from the start.
  Offers(std::size_t peers, PeerId self, std::uint64_t drawn, std::vector<Round> rounds);

  bool asked() const { return !by_peer_.empty(); }
  bool complete() const { return unknown_ == 0 && (run_ != 0 || !asked()); }
  /// Takes over what is not known here; true where anything was.
  bool merge(const Offers& theirs);
  std::uint64_t run() const { return run_; }
  /// The newest round that all offer.
  std::optional<Round> newest_common() const;
  /// By peer.
  const std::vector<std::optional<std::vector<Round>>>& by_peer() const { return by_peer_; }

  /// The run's number; then runs of peers alike, each the peers, the rounds that they offer and one more (0:
  /// not known), and these as differences. Numbers as of varint.h.
  std::vector<std::byte> to_bytes() const;
  /// Empty where the bytes are none of to_bytes.
  static std::optional<Offers> from_bytes(std::span<const std::byte> bytes);
  friend bool operator==(const Offers& a, const Offers& b) {
    return a.run_ == b.run_ && a.by_peer_ == b.by_peer_;
  }

 private:
  std::uint64_t run_ = 0;
  std::vector<std::optional<std::vector<Round>>> by_peer_;
  std::size_t unknown_ = 0;
};

}  // namespace gossamer::node
