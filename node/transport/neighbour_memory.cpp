#include "neighbour_memory.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <type_traits>

#include "endpoint.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostLenders = 64;
/// Of a message over the Unix socket; what is longer goes over TCP.
constexpr std::size_t kLongest = std::size_t{32} << 10;
constexpr std::size_t kHearAtOnce = 8;
/// Tickets of one who has ended may still wait to be read.
constexpr double kKeepEnded_s = 5;

/// What a lender says, with the descriptor of its memory.
struct Offer {
  std::uint64_t mark = 0x7265'6666'6f72'5347, token = 0, reader = 0;
};
/// Answers to an offer.
constexpr std::byte kReads{1}, kReadsAndHears{2};
static_assert(std::is_trivially_copyable_v<Ticket> && std::is_trivially_copyable_v<Offer>);

int unix_socket() { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

struct UnixAddress {
  sockaddr_un at{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&at); }
};
/// In the abstract namespace, which no file system is part of.
UnixAddress unix_address(std::string_view name) {
  UnixAddress address;
  address.at.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.at.sun_path - 1);
  std::memcpy(address.at.sun_path + 1, name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

std::string meeting_of(const std::string& host, const std::string& port) {
  return fmt::format("gossamer frames {}:{}", host, port);
}

bool of_this_user(int connection) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

struct Host {
  std::string address, port;
};
std::optional<Host> host_of(const sockaddr_storage& at) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  std::uint16_t port = 0;
  if (at.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    port = ntohs(v4.sin_port);
  } else if (at.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    port = ntohs(v6.sin6_port);
  } else {
    return std::nullopt;
  }
  std::string address = text.data();
  if (address.starts_with("::ffff:")) address.erase(0, 7);
  return Host{address, fmt::format("{}", port)};
}

/// The other end, where it has an address of this machine: one connects to its own by that same one, or from
/// one loopback address to another.
std::optional<Host> on_this_machine(int connection) {
  sockaddr_storage here{}, there{};
  socklen_t size = sizeof here;
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&here), &size) != 0) return std::nullopt;
  size = sizeof there;
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&there), &size) != 0) return std::nullopt;
  const auto own = host_of(here), other = host_of(there);
  if (!own || !other || (own->address != other->address && !is_loopback(other->address))) return std::nullopt;
  return other;
}

bool offer(int connection, const SharedBlocks& blocks, ReaderId reader) {
  Offer said{.token = blocks.token(), .reader = reader};
  iovec part{&said, sizeof said};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = blocks.fd();
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof said);
}

/// What came over a connection: an offer and its descriptor, or less.
struct Received {
  ssize_t bytes = -1;
  Offer said{};
  int fd = -1;  ///< the caller's
};
Received receive_offer(int connection) {
  Received received;
  iovec part{&received.said, sizeof received.said};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  received.bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  for (const cmsghdr* head = CMSG_FIRSTHDR(&message); received.bytes >= 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(head)))
    for (std::size_t at = CMSG_LEN(0); head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
                                       at + sizeof received.fd <= head->cmsg_len;
         at += sizeof received.fd) {
      if (received.fd >= 0) ::close(received.fd);  // one was expected
      std::memcpy(&received.fd, reinterpret_cast<const unsigned char*>(head) + at, sizeof received.fd);
    }
  return received;
}

}  // namespace

NeighbourMemory::~NeighbourMemory() {
  for (auto& [neighbour, loan] : loans_) end(loan);
  for (const Lender& lender : lenders_)
    if (!lender.borrowed) ::close(lender.connection);
  for (const int door : doors_) ::close(door);
}

NeighbourMemory::Borrowed::~Borrowed() { ::close(connection); }

void NeighbourMemory::open(const std::string& endpoints, bool hears) {
  hears_ = hears;
  for (std::string_view rest = endpoints; !rest.empty();) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    const Endpoint endpoint = endpoint_of(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 2, rest.size()));
    if (endpoint.host != "*" && !is_numeric(endpoint.host)) continue;  // of an interface
    const bool any = endpoint.host == "*" || is_any_address(endpoint.host);
    const int door = unix_socket();
    if (door < 0) return;
    const UnixAddress at = unix_address(meeting_of(any ? "*" : endpoint.host, endpoint.port));
    if (::bind(door, at.get(), at.size) != 0 || ::listen(door, static_cast<int>(kMostLenders)) != 0)
      ::close(door);
    else
      doors_.push_back(door);
  }
}

void NeighbourMemory::connected(PeerId neighbour, int connection, const std::string& address) {
  broken(neighbour);
  const auto host = on_this_machine(connection);
  // the descriptor may be another connection's by now
  if (host && endpoint_of(address).port == host->port)
    loans_[neighbour].meeting = meeting_of(host->address, host->port);
}

void NeighbourMemory::broken(PeerId neighbour) {
  const auto at = loans_.find(neighbour);
  if (at == loans_.end()) return;
  end(at->second);
  loans_.erase(at);
}

/// The other end may still read what was lent, until it has closed its end.
void NeighbourMemory::end(Loan& loan) {
  if (loan.connection < 0) return;
  const int connection = std::exchange(loan.connection, -1);
  loan.stands = false;
  SharedBlocks* const blocks = SharedBlocks::started();
  if (!blocks) return void(::close(connection));  // in a child: the loan is its parent's
  ::shutdown(connection, SHUT_WR);
  blocks->leave(loan.reader, connection);
}

void NeighbourMemory::ask(Loan& loan) {
  loan.asked = true;
  std::string any = loan.meeting;
  any.replace(any.rfind(' ') + 1, any.rfind(':') - any.rfind(' ') - 1, "*");
  for (const std::string& name : {loan.meeting, any}) {
    const UnixAddress at = unix_address(name);
    const int connection = unix_socket();
    if (connection < 0) return;
    if (::connect(connection, at.get(), at.size) != 0 || !of_this_user(connection)) {
      ::close(connection);
      continue;
    }
    SharedBlocks* const blocks = SharedBlocks::start();
    const auto reader = blocks ? blocks->add_reader() : std::nullopt;
    if (!reader) return void(::close(connection));
    loan.connection = connection, loan.reader = *reader;
    if (!offer(connection, *blocks, *reader)) end(loan);
    return;
  }
}

Payload NeighbourMemory::lendable(PeerId neighbour, const Payload& payload) {
  if (payload->size() < SharedBlocks::kLeastBytes) return {};
  const auto at = loans_.find(neighbour);
  if (at == loans_.end()) return {};
  if (!at->second.asked) ask(at->second);
  if (!at->second.stands) return {};
  SharedBlocks& blocks = *SharedBlocks::started();
  if (blocks.has(*payload)) return payload;
  const ByteBlock copy = blocks.take(payload->size());
  if (!copy.owner) return {};
  std::copy(payload->begin(), payload->end(), copy.bytes.begin());
  return {copy.owner, copy.bytes.first(payload->size())};
}

std::optional<Ticket> NeighbourMemory::lend(PeerId neighbour, std::span<const std::byte> payload) {
  const auto at = loans_.find(neighbour);
  if (at == loans_.end() || !at->second.stands) return std::nullopt;
  SharedBlocks& blocks = *SharedBlocks::started();
  const auto place = blocks.lend(payload, at->second.reader);
  if (!place) return std::nullopt;
  return Ticket{.lender = blocks.token(), .reader = at->second.reader, .place = *place};
}

void NeighbourMemory::take_back(const Ticket& ticket) {
  SharedBlocks::started()->take_back(ticket.place, static_cast<ReaderId>(ticket.reader));
}

NeighbourMemory::Sent NeighbourMemory::send(PeerId neighbour, const Ticket* ticket,
                                            std::span<const std::byte> frame) {
  const auto at = loans_.find(neighbour);
  if (at == loans_.end() || !at->second.stands || !at->second.hears) return Sent::no;
  Loan& loan = at->second;
  const std::size_t before = ticket ? sizeof *ticket : 0;
  if (before + frame.size() > kLongest) return Sent::no;
  std::array<iovec, 2> parts{
      {{const_cast<Ticket*>(ticket), before}, {const_cast<std::byte*>(frame.data()), frame.size()}}};
  msghdr message{};
  message.msg_iov = parts.data(), message.msg_iovlen = parts.size();
  while (::sendmsg(loan.connection, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EMSGSIZE || errno == ENOBUFS || errno == ENOMEM) return Sent::no;
    if (errno == EAGAIN) {
      loan.full = true;
      return Sent::waits;
    }
    if (ticket) take_back(*ticket);  // before the reader's number is free
    end(loan);
    return Sent::broke;
  }
  return Sent::yes;
}

std::optional<Ticket> NeighbourMemory::ticket_of(std::span<const std::byte> message) {
  Ticket ticket;
  if (message.size() < sizeof ticket) return std::nullopt;
  std::memcpy(&ticket, message.data(), sizeof ticket);
  if (ticket.mark != Ticket::kMark) return std::nullopt;
  return ticket;
}

Payload NeighbourMemory::read(const Ticket& ticket) const {
  const auto at = std::find_if(lenders_.begin(), lenders_.end(), [&](const Lender& l) {
    return l.borrowed && l.token == ticket.lender && l.reader == ticket.reader;
  });
  if (at == lenders_.end()) return {};
  const std::span<const std::byte> bytes = at->borrowed->memory.read(ticket.place);
  if (bytes.empty()) return {};
  const auto give_back = [from = at->borrowed, place = ticket.place](const std::byte*) {
    from->memory.give_back(place);
  };
  return {std::shared_ptr<const std::byte>(bytes.data(), give_back), bytes};
}

void NeighbourMemory::watch(std::vector<pollfd>& polled) const {
  for (const int door : doors_) polled.push_back({door, POLLIN, 0});
  for (const Lender& lender : lenders_)
    if (!lender.ended_s) polled.push_back({lender.connection, POLLIN, 0});
  for (const auto& [neighbour, loan] : loans_)
    if (loan.connection >= 0 && (!loan.stands || loan.full))
      polled.push_back({loan.connection, static_cast<short>(loan.stands ? POLLOUT : POLLIN), 0});
}

bool NeighbourMemory::notice(std::span<const pollfd> polled) {
  happened_.clear();
  for (const pollfd& of : polled)
    if (of.revents != 0) happened_.push_back(of.fd);
  return !happened_.empty();
}

bool NeighbourMemory::happened(int fd) const {
  return std::find(happened_.begin(), happened_.end(), fd) != happened_.end();
}

bool NeighbourMemory::looks_after() const {
  return std::any_of(lenders_.begin(), lenders_.end(), [](const Lender& l) { return l.ended_s.has_value(); });
}

std::vector<PeerId> NeighbourMemory::look(double now_s, bool all_read, const Take& take) {
  welcome();
  for (Lender& lender : lenders_)
    if (!lender.ended_s && happened(lender.connection) &&
        !(lender.borrowed ? hear(lender, take) : take_in(lender)))
      lender.ended_s = now_s;
  lenders_.remove_if([&](const Lender& lender) {
    if (!lender.ended_s) return false;
    if (lender.borrowed) return all_read && now_s >= *lender.ended_s + kKeepEnded_s;
    ::close(lender.connection);
    return true;
  });
  std::vector<PeerId> readers;
  for (auto& [neighbour, loan] : loans_) {
    if (!happened(loan.connection)) continue;
    loan.full = false;
    if (loan.stands) continue;
    std::byte said{};
    const ssize_t bytes = ::recv(loan.connection, &said, 1, 0);
    if (bytes == 1)
      loan.stands = true, loan.hears = said == kReadsAndHears, readers.push_back(neighbour);
    else if (bytes == 0 || (errno != EAGAIN && errno != EINTR))
      end(loan);
  }
  return readers;
}

/// Whoever asks. Where this process can open no more files nobody is welcome any more: doors that stay full
/// would wake it for ever.
void NeighbourMemory::welcome() {
  std::erase_if(doors_, [&](int door) {
    if (!happened(door)) return false;
    for (int from; (from = ::accept4(door, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      if (lenders_.size() >= kMostLenders || !of_this_user(from))
        ::close(from);
      else
        lenders_.push_back({.connection = from});
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return false;
    ::close(door);
    return true;
  });
}

/// False where it has ended, or sent something else than a frame.
bool NeighbourMemory::hear(const Lender& lender, const Take& take) {
  constexpr std::size_t kWords = kLongest / sizeof heard_[0];
  heard_.resize(kHearAtOnce * kWords);
  std::array<iovec, kHearAtOnce> parts{};
  std::array<mmsghdr, kHearAtOnce> messages{};
  for (std::size_t i = 0; i < kHearAtOnce; ++i) {
    parts[i] = {heard_.data() + i * kWords, kLongest};
    messages[i].msg_hdr.msg_iov = &parts[i], messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int count = ::recvmmsg(lender.connection, messages.data(), kHearAtOnce, 0, nullptr);
  bool good = count >= 0 || errno == EAGAIN || errno == EINTR;
  for (int i = 0; good && i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto message = std::as_bytes(std::span(heard_)).subspan(at * kLongest, messages[at].msg_len);
    good = !message.empty() && hears_ && take(message);  // an empty one is the end
  }
  if (!good) ::shutdown(lender.connection, SHUT_RD);  // so that the other end goes another way from now on
  return good;
}

/// False where it has ended, or says something else than it should.
bool NeighbourMemory::take_in(Lender& lender) const {
  const Received received = receive_offer(lender.connection);
  if (received.bytes < 0) return errno == EAGAIN || errno == EINTR;
  struct Closed {
    int fd;
    ~Closed() {
      if (fd >= 0) ::close(fd);
    }
  } const closed{received.fd};
  if (received.bytes != sizeof(Offer) || received.said.mark != Offer{}.mark || received.fd < 0) return false;
  try {
    lender.borrowed = std::make_shared<const Borrowed>(
        received.fd, static_cast<ReaderId>(received.said.reader), lender.connection);
  } catch (const std::exception&) {  // no room in this process's address space, or another kind of memory
    return false;
  }
  lender.token = received.said.token;
  lender.reader = received.said.reader;
  return ::send(lender.connection, hears_ ? &kReadsAndHears : &kReads, 1, MSG_NOSIGNAL) == 1;
}

}  // namespace gossamer::node
