#pragma once
// Frames in a neighbour's name that it never sent, as a faulty or hostile member would write them: with the
// right job, epoch and sequence number, and something wrong in all else. For the simulator and tests.
#include <random>
#include <string>
#include <vector>

#include "frame.h"

namespace gossamer::node {

/// What is wrong with a forged frame. Each is refused by whoever checks, whatever it stands at.
enum class Forgery : std::uint8_t {
  later_round,
  other_parcel,
  other_tag,
  more_entries,
  half,       ///< the first of two chunks
  digest,     ///< of another payload
  cut_short,  ///< the payload lacks its last byte
  not_finite,
  other_codec,
  earlier_round,  ///< long over; later_round where none is. Not wrong where messages go by their order
};
/// How many of them, from the first on, are wrong for a method that goes by the order of messages, or not.
constexpr std::size_t forgeries(bool by_order) { return by_order ? 9 : 10; }

/// Like this one; empty where it is no parcel's nor a piece of a state, or too short to be forged. Of a piece
/// a bit is changed, whatever the forgery.
FrameBytes forged(const FrameBytes& frame, Forgery forgery, std::mt19937_64& random);

/// The frame as an earlier start of its sender would have sent it, with other numbers in it; empty for what
/// is no parcel's.
FrameBytes stray_of(const FrameBytes& frame);

/// The frame in the name of another of so many peers, or of those names; empty for what has no name.
FrameBytes in_anothers_name(const FrameBytes& frame, const std::vector<std::string>& names,
                            std::mt19937_64& random);

}  // namespace gossamer::node
