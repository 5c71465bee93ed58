#pragma once
// A Verdict is what a peer makes of a message in a neighbour's name before anything of it is kept: a listed
// peer may be faulty or hostile, and where no keys are in use a stranger may write its name.
#include <array>
#include <cstdint>
#include <string_view>

namespace gossamer::node {

enum class Refusal : std::uint8_t {
  parcel,    ///< there is no such one
  tag,       ///< the method sends none such in that direction
  round,     ///< not one that the neighbour may be in, or sends in
  entries,   ///< not as many as the parcel has
  chunks,    ///< not as a payload is cut
  sequence,  ///< farther ahead than anything that can be under way
  memory,    ///< more would be held than is allowed
  digest,    ///< the payload is not the one that its chunks announced
  payload,   ///< it does not decode
  muted,     ///< too many of its sender's did not: it was not read
};
inline constexpr std::array<std::string_view, 10> kRefusals{
    "parcel", "tag", "round", "entries", "chunks", "sequence", "memory", "digest", "payload", "muted sender"};
using RefusalCounts = std::array<std::uint64_t, kRefusals.size()>;

struct Verdict {
  enum class When : std::uint8_t {
    now,    ///< may be delivered
    later,  ///< belongs to a round after one whose message is still to come
    past,   ///< of no more use, but nothing wrong
    never
  } when = When::never;
  Refusal why{};              ///< where never
  std::uint64_t entries = 0;  ///< that such a message holds

  static constexpr Verdict now(std::uint64_t entries) { return {When::now, {}, entries}; }
  static constexpr Verdict later(std::uint64_t entries) { return {When::later, {}, entries}; }
  static constexpr Verdict past() { return {When::past, {}, 0}; }
  static constexpr Verdict never(Refusal why) { return {When::never, why, 0}; }
  bool operator==(const Verdict&) const = default;
};

}  // namespace gossamer::node
