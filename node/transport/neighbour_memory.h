#pragma once
// Payloads for a neighbour on the same machine need not go through its network: they stay where they are, and
// what is sent is their frame without them, with a ticket that says where they are. NeighbourMemory makes the
// acquaintance: a Unix socket beside each address that a peer listens on, over which who dials that address
// hands on its shared memory (by a file descriptor) to a process of the same user. Where that fails all goes
// over TCP, as it does between machines. Once they know each other, short frames go over that socket too,
// from one thread straight to the other.
//
// Such a socket's name is of the network that it was made in (a network namespace), so that peers which reach
// each other through a slow link of one machine do not find each other.
#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "shared_blocks.h"

namespace gossamer::node {

/// What stands before a frame whose payload is elsewhere. No frame begins like one.
struct Ticket {
  static constexpr std::uint64_t kMark = 0x6b63'6974'7267'5347;
  std::uint64_t mark = kMark;
  std::uint64_t lender = 0;  ///< its memory's token
  std::uint64_t reader = 0;
  SharedPlace place{};
};

class NeighbourMemory {
 public:
  NeighbourMemory() = default;
  ~NeighbourMemory();
  NeighbourMemory(const NeighbourMemory&) = delete;
  NeighbourMemory& operator=(const NeighbourMemory&) = delete;

  /// Others may lend to who listens at these endpoints (as of listen()), and where it hears also send frames.
  /// Does nothing where it cannot.
  void open(const std::string& endpoints, bool hears);

  // --- to lend

  /// The neighbour was dialled: over this TCP connection, at that address.
  void connected(PeerId neighbour, int connection, const std::string& address);
  /// That connection is no more: what was lent over it comes back, the next one begins anew.
  void broken(PeerId neighbour);
  /// The payload, or a copy, as the neighbour can read it; none: it cannot. The first time it is asked.
  Payload lendable(PeerId neighbour, const Payload& payload);
  /// Of such a one; none: the neighbour cannot read it any more.
  std::optional<Ticket> lend(PeerId neighbour, std::span<const std::byte> payload);
  /// The ticket was not sent.
  static void take_back(const Ticket& ticket);
  /// waits: the neighbour has to read first, of which watch() tells; no: not this way; broke: nor any more,
  /// what was under way may be lost, and the ticket is taken back.
  enum class Sent { yes, waits, no, broke };
  /// A frame, behind a ticket where it has one.
  Sent send(PeerId neighbour, const Ticket* ticket, std::span<const std::byte> frame);

  // --- to borrow

  /// None: the message does not begin with one.
  static std::optional<Ticket> ticket_of(std::span<const std::byte> message);
  /// Given back with its last copy; none: whoever sent the ticket lends nothing of the kind.
  Payload read(const Ticket& ticket) const;

  /// Adds what is to be waited for,
  void watch(std::vector<pollfd>& polled) const;
  /// of which this is what came of it; true where something happened.
  bool notice(std::span<const pollfd> polled);
  /// Who has ended is not watched, but looked after now and then.
  bool looks_after() const;
  /// Of a message that came; false: it is no frame, and nothing more is taken from there.
  using Take = std::function<bool(std::span<const std::byte>)>;
  /// Takes in what happened; gives the neighbours that have become readers. all_read: no ticket that came
  /// another way waits to be read. Messages start at a multiple of 8.
  std::vector<PeerId> look(double now_s, bool all_read, const Take& take);

 private:
  struct Loan {
    std::string meeting{};  ///< name of the neighbour's socket; empty: it is on another machine
    int connection = -1;    ///< to it; -1: not asked yet, or refused
    bool asked = false, stands = false;
    bool hears = false;  ///< the neighbour takes frames over this connection, too
    bool full = false;   ///< the neighbour has to read first
    ReaderId reader = 0;
  };
  /// The lender sees the connection's end once nothing is read any more.
  struct Borrowed {
    Borrowed(int fd, ReaderId as, int over) : memory(fd, as), connection(over) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed();
    BorrowedMemory memory;
    int connection;
  };
  struct Lender {
    int connection = -1;
    std::uint64_t token = 0, reader = 0;
    std::shared_ptr<const Borrowed> borrowed{};  ///< null: it has not said anything yet
    std::optional<double> ended_s{};             ///< since then it lends no more
  };
  static void ask(Loan& loan);
  static void end(Loan& loan);
  void welcome();
  bool happened(int fd) const;
  bool take_in(Lender& lender) const;
  bool hear(const Lender& lender, const Take& take);

  std::map<PeerId, Loan> loans_;
  std::vector<int> doors_;
  bool hears_ = false;
  std::list<Lender> lenders_;
  std::vector<int> happened_{};         ///< descriptors to which something did
  std::vector<std::uint64_t> heard_{};  ///< the messages that are being taken in
};

}  // namespace gossamer::node
