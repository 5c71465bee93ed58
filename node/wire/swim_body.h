#pragma once
// A SwimBody is what members tell each other of who is there (member/swim.h), as a frame's body. Members go
// by name: the header's sender is kNoPeer.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gossamer::node {

constexpr std::uint32_t kNoPeer = 0xffffffff;
constexpr std::size_t kMostNameBytes = 64, kMostAddressBytes = 512, kMostWordBytes = 512, kMostRecords = 64,
                      kMostDoubts = 4;

enum class MemberStatus : std::uint8_t { alive, suspect, dead, left };

struct MemberRecord {
  std::string name{}, address{};  ///< address: how others reach it; empty: it can only dial out
  /// Incarnation: a later start of this member has a greater one, by its own machine's clock alone. Those of
  /// different machines are never compared.
  std::uint64_t start = 0;
  std::uint32_t refuted = 0;  ///< SWIM's incarnation number, within a start
  MemberStatus status = MemberStatus::alive;
  std::uint32_t word_version = 0;  ///< of `word`, within a start
  std::vector<std::byte> word{};   ///< what the member says of itself; opaque here
  /// Of a suspect: hash_text of the names of those who could not reach it themselves; ascending, no more than
  /// confirm it.
  std::vector<std::uint64_t> doubted_by{};
  bool ended = false;  ///< of one that is dead: its process is known to have ended, and not only to be silent
  bool operator==(const MemberRecord&) const = default;
};

struct SwimBody {
  enum class Kind : std::uint8_t { ping, ack, ping_request, nack, news };
  Kind kind = Kind::news;
  std::uint64_t number = 0;  ///< of the probe; of news: not 0 asks for all that the receiver knows
  std::string from{};        ///< name of the sender
  std::uint64_t from_start = 0;
  /// ping_request, nack: whom to probe. ping, ack: the name that is meant, empty where it is not known yet: a
  /// ping that reaches another process is not answered.
  std::string about{};
  std::vector<MemberRecord> records{};

  /// Of its records the numbers of those that have ended, ascending, as of varint.h.
  std::vector<std::byte> ended() const;
  /// False where the bytes are none of ended() of such records.
  bool take_ended(std::span<const std::byte> bytes);

  /// Kind, number, names and records, but for `ended`, one after the other; starts and the probe's number in
  /// 8 bytes, other numbers as of varint.h, each text's length before it.
  std::vector<std::byte> to_bytes() const;
  std::size_t most_bytes() const;
  /// Empty where the bytes are none of to_bytes, or beyond the limits above.
  static std::optional<SwimBody> from_bytes(std::span<const std::byte> bytes);
  bool operator==(const SwimBody&) const = default;
};

/// Plain text of one line and not too long, or empty.
bool is_member_address(const std::string& address);

}  // namespace gossamer::node
