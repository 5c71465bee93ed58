#pragma once
// A StatusBody is how one peer sees its run, for whoever asks (`gossamer status`), as a frame's body.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "swim_body.h"

namespace gossamer::node {

constexpr std::size_t kMostStatusMembers = 256, kMostStatusTextBytes = 255;

struct StatusBody {
  enum class Standing : std::uint8_t { alive, suspect, dead, left, waiting };  ///< waiting: not heard of yet

  struct Member {
    std::string name{}, address{};
    std::uint64_t start = 0;  ///< its incarnation; 0: not known
    Standing standing = Standing::waiting;
    double since_s = 0;  ///< for how long that is known to the one that answers
    bool in_view = false, neighbour = false;
    std::optional<std::uint64_t>
        staleness{};  ///< of a neighbour: rounds since that of its newest message used
    bool operator==(const Member&) const = default;
  };

  std::string run{};   ///< name of the job
  std::string peer{};  ///< who answers
  std::string method{}, codec{}, graph{};
  std::uint64_t view = 0, attempt = 0;  ///< view: its id
  bool trains = false;                  ///< else it waits for others, or for the view to begin
  std::uint64_t round = 0;              ///< rounds finished
  double share_done = 0, epoch = 0;
  std::optional<double> loss{};  ///< of its newest report; none: there was none
  std::uint32_t health = 0;      ///< Swim::local_health
  std::uint32_t peers = 0;       ///< that the run knows of; more than `members` where those are too many
  std::vector<Member> members{};
  std::string waits{};  ///< for those that it is cut off from, in words; empty: it does not. One line of at
                        ///< most kMostAddressBytes; beside the bytes below
  bool operator==(const StatusBody&) const = default;

  /// Texts, numbers of 8 bytes and of varint.h, in the order above.
  std::vector<std::byte> to_bytes() const;
  std::size_t most_bytes() const;
  /// Empty where the bytes are none of to_bytes, or beyond the limits above.
  static std::optional<StatusBody> from_bytes(std::span<const std::byte> bytes);
};

}  // namespace gossamer::node
