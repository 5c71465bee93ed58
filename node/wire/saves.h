#pragma once
// SaveNews is what peers tell each other of checkpoints with their signs of life: after which round all save
// next, who has heard of that, and which checkpoint each has on disk. It merges by maximum, in whatever order
// it comes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ids.h"

namespace gossamer::node {

struct SaveNews {
  Round at = 0;                    ///< all save when so many rounds have ended; 0: nothing is agreed yet
  Round best = 0, judged = 0;      ///< the best so far, as of the checkpoint of round `judged`; 0: none
  std::vector<Round> heard{};      ///< by peer: the greatest `at` that it has told of itself
  std::vector<Round> committed{};  ///< by peer: the newest that it has; 0: none. Empty: nobody tells

  explicit operator bool() const { return !committed.empty(); }
  /// Takes over what is higher in theirs; true where anything was. Of another number of peers: nothing.
  bool merge(const SaveNews& theirs);
  /// Everyone knows that all save after that round, and of no later one: nobody goes past it.
  bool all_heard(Round round) const;
  /// Of all peers the least of `committed`; 0 where one has none.
  Round common() const;
  bool operator==(const SaveNews&) const = default;

  /// Numbers as of varint.h: at, best, judged; then runs of peers alike, each the peers, heard and committed.
  std::vector<std::byte> to_bytes() const;
  std::size_t most_bytes() const { return 32 + 24 * committed.size(); }  ///< of to_bytes
  /// Empty where the bytes are none of to_bytes.
  static std::optional<SaveNews> from_bytes(std::span<const std::byte> bytes);
};

}  // namespace gossamer::node
