#pragma once
// A Message is a whole payload as it travels on a link; LinkCounters count what passed there.
#include <optional>

#include "ids.h"
#include "verdict.h"

namespace gossamer::node {

/// A whole payload, reassembled from its chunks.
struct Message {
  Round round = 0;
  ParcelId parcel = 0;
  std::uint32_t tag = 0;
  std::uint64_t entries = 0;
  Payload payload;
  std::uint64_t sequence = 0;             ///< of its last chunk; for Link::consume
  std::optional<std::uint64_t> digest{};  ///< of the payload, where it came with one
  std::optional<std::uint64_t> hash{};    ///< of all its bytes, where it came in one chunk that was hashed
};

/// Counters of one link; bytes are whole frames, chunk frames of parcels counted apart in data_*.
struct LinkCounters {
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t data_bytes_out = 0,
                data_entries_out = 0;  ///< resent frames included in bytes, not in entries
  std::uint64_t resent = 0, duplicates = 0, reordered = 0;
  RefusalCounts refused_by{};  ///< by reason

  std::uint64_t refused() const {
    std::uint64_t all = 0;
    for (const std::uint64_t n : refused_by) all += n;
    return all;
  }
};

}  // namespace gossamer::node
