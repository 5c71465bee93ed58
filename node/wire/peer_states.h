#pragma once
// PeerStates are what a peer knows of every peer, in runs of peers of equal status: there are few, because
// peers join, train and end together. Memory, messages and the work of merging follow the number of runs, not
// of peers.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ids.h"

namespace gossamer::node {

/// What a peer knows of another; knowledge only ever grows, so that two views merge by maximum.
enum class PeerStatus : std::uint8_t {
  unknown,  ///< not heard of
  started,  ///< runs, but not yet in touch with all its neighbours
  present,  ///< in touch with all its neighbours
  done,     ///< begins no more rounds: has finished them and still serves, or ends because another is missing
  left,     ///< ended before its last round, and said so
  lost,     ///< gone without a word
  diverged,  ///< ended because its training ran away, and said so
  muted,     ///< its payloads do not decode, and a neighbour whose rounds wait for them has ended
};

class PeerStates {
 public:
  PeerStates() = default;
  PeerStates(std::size_t peers, PeerStatus status) { append(peers, status); }
  PeerStates(std::initializer_list<PeerStatus> each);

  std::size_t size() const { return runs_.empty() ? 0 : runs_.back().end; }
  PeerStatus operator[](PeerId peer) const;
  /// True where the status was lower before.
  bool raise(PeerId peer, PeerStatus status);
  /// Takes over what is higher in theirs, of all peers but self; true where anything was.
  bool merge(const PeerStates& theirs, PeerId self);

  bool all_at_least(PeerStatus least) const;
  bool any(PeerStatus status) const;
  std::vector<PeerId> with(PeerStatus status) const;  ///< ascending

  /// One byte of status and the length of the run, 7 bits a byte from the lowest on, the highest bit set in
  /// all but the last.
  std::vector<std::byte> to_bytes() const;
  std::size_t most_bytes() const { return 6 * runs_.size(); }  ///< of to_bytes
  /// Empty where the bytes are none of to_bytes. A status of a later version is read as unknown.
  static std::optional<PeerStates> from_bytes(std::span<const std::byte> bytes);

  friend bool operator==(const PeerStates&, const PeerStates&) = default;

 private:
  struct Run {
    PeerId end;  ///< one past its last peer; it begins where the run before ends
    PeerStatus status;
    friend bool operator==(const Run&, const Run&) = default;
  };
  void append(std::size_t peers, PeerStatus status);
  void set(PeerId peer, PeerStatus status);
  bool covers(const PeerStates& theirs) const;

  std::vector<Run> runs_;  ///< neighbouring ones differ, none is empty
};

}  // namespace gossamer::node
