#pragma once
// SaveNews is what peers tell each other of checkpoints with their signs of life: after which round all save
// next, who holds there, who has taken it, what each has on disk, and who leaves then. It merges by maximum,
// in whatever order it comes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ids.h"

namespace gossamer::node {

struct SaveNews {
  Round at = 0;                ///< all save when so many rounds have ended; 0: nothing is agreed yet
  Round best = 0, judged = 0;  ///< the best so far, as of the checkpoint of round `judged`; 0: none
  Round whole = 0;             ///< the newest that all are known to have on disk; 0: none
  // By peer, the newest checkpoint of which this is so; 0: none. Empty: nobody tells.
  std::vector<Round> holding{};    ///< it holds for it, and all that it sent has been received
  std::vector<Round> taken{};      ///< its state has been copied
  std::vector<Round> committed{};  ///< it is on disk
  std::vector<PeerId> leaving{};   ///< told to end: they leave after the save that is next; ascending

  explicit operator bool() const { return !committed.empty(); }
  /// Takes over what is higher in theirs, but of what self does; true where anything was. Of another number
  /// of peers: nothing.
  bool merge(const SaveNews& theirs, PeerId self);
  /// The greatest round that it names.
  Round greatest() const;
  /// All hold for it, so that nothing of the rounds before is under way; or did, as one knows who has taken
  /// it.
  bool all_hold(Round name) const;
  /// Its state has been copied, at every peer.
  bool all_took(Round name) const;
  bool leaves(PeerId peer) const;
  /// Of all peers the least of `committed`; 0 where one has none.
  Round common() const;
  /// Raises `whole` where all have the same one.
  void look_whole();
  bool operator==(const SaveNews&) const = default;

  /// Numbers as of varint.h: at, best, judged, whole; how many leave, and each; then runs of peers alike,
  /// each the peers, holding, taken and committed.
  std::vector<std::byte> to_bytes() const;
  std::size_t most_bytes() const { return 50 + 35 * committed.size(); }  ///< of to_bytes
  /// Empty where the bytes are none of to_bytes.
  static std::optional<SaveNews> from_bytes(std::span<const std::byte> bytes);
};

}  // namespace gossamer::node
