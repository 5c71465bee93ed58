#include "doorkeeper.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <tuple>

namespace gossamer::node {
namespace {

constexpr double kSayAgain_s = 10;
constexpr std::size_t kMostTold = 256;
/// Of strangers soon, as they may send as fast as the network is.
constexpr double kLookAtSilent_s = 0.002, kLookAtAll_s = 0.05;
/// Over a connection that only this peer speaks on, so few bytes in that time are no part of a message.
constexpr double kSignsOfLife_s = 10;
constexpr std::uint64_t kMostSignsOfLife = std::uint64_t{16} << 10;
constexpr double kLookOften_s = 2;  ///< since the connection was made

/// None where it is no TCP connection any more.
std::optional<std::uint64_t> bytes_received(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return std::nullopt;
  return info.tcpi_bytes_received;
}

bool is_peer(int fd, const sockaddr_storage& peer) {
  sockaddr_storage now{};
  socklen_t size = sizeof now;
  return getpeername(fd, reinterpret_cast<sockaddr*>(&now), &size) == 0 &&
         std::memcmp(&now, &peer, sizeof now) == 0;
}

std::string address_text(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = peer.ss_family == AF_INET6
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr)
                            : &reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
  if (!inet_ntop(peer.ss_family, address, text.data(), text.size())) return "somebody";
  const std::string all = text.data();
  return all.starts_with("::ffff:") ? all.substr(7) : all;
}

}  // namespace

void Doorkeeper::accepted(int fd, double now_s) {
  Connection connection{.since = now_s};
  socklen_t size = sizeof connection.peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&connection.peer), &size) != 0) return;  // it has gone
  connection.address = address_text(connection.peer);
  open_[fd] = connection;
  next_look_ = std::min(next_look_, now_s + kLookAtSilent_s);
}

void Doorkeeper::dialled(int fd, double now_s) {
  accepted(fd, now_s);
  if (const auto at = open_.find(fd); at != open_.end()) at->second.own = true;
}

void Doorkeeper::damaged(int fd, double now_s) {
  const auto at = open_.find(fd);
  if (at == open_.end()) return;
  cut(fd, at->second, "what came over it was damaged, or no message of a peer", now_s);
  open_.erase(at);
}

void Doorkeeper::turned_away(int fd, double now_s) {
  const auto at = open_.find(fd);
  if (at == open_.end()) return;
  cut(fd, at->second, "its key is not admitted any more", now_s);
  open_.erase(at);
}

void Doorkeeper::heard(int fd, const std::string* speaker, double now_s) {
  const auto at = open_.find(fd);
  if (at == open_.end()) return;
  Connection& c = at->second;
  c.heard = c.news = true;
  c.heard_at = now_s;
  if (!speaker || c.speaker == *speaker) return;
  c.speaker = *speaker;
  bound(*speaker, now_s);
}

void Doorkeeper::bound(const std::string& speaker, double now_s) {
  std::size_t count = 0;
  auto oldest = open_.end();
  for (auto at = open_.begin(); at != open_.end(); ++at) {
    if (at->second.own || at->second.speaker != speaker) continue;
    if (count++ == 0 || at->second.heard_at < oldest->second.heard_at) oldest = at;
  }
  if (count <= spec_.most_of_one) return;
  cut(oldest->first, oldest->second, (speaker + " has too many that are open").c_str(), now_s);
  open_.erase(oldest);
}

void Doorkeeper::look(double now_s) {
  if (now_s < next_look_) return;
  std::map<std::string, std::size_t> of_address;
  struct Silent {
    std::string address;
    double since;
    int fd;
  };
  std::vector<Silent> silent;
  bool often = false;
  for (auto at = open_.begin(); at != open_.end();) {
    const int fd = at->first;
    Connection& c = at->second;
    const auto came = bytes_received(fd);
    if (came && std::exchange(c.news, false)) c.read_until = *came;
    if (!came) {  // closed, and nobody said so
      at = open_.erase(at);
      continue;
    }
    if (c.own && now_s >= c.since + kSignsOfLife_s) {
      c.since = now_s;
      if (*came <= c.read_until + kMostSignsOfLife) c.read_until = *came;
    }
    const std::uint64_t most = c.heard ? spec_.later_bytes : spec_.first_bytes;
    const bool silent_guest = !c.heard && !c.own;
    const bool too_much = *came > c.read_until + most;
    const bool too_long = silent_guest && now_s >= c.since + spec_.silent_s;
    if (too_much || too_long) {
      cut(fd, c,
          too_much ? "more came over it than a message may take, and none was whole" : "it said nothing",
          now_s);
      at = open_.erase(at);
      continue;
    }
    often |= silent_guest && now_s < c.since + kLookOften_s;
    if (silent_guest) silent.push_back({c.address, c.since, fd}), ++of_address[c.address];
    ++at;
  }
  if (silent.size() > spec_.most_silent) {
    // of the addresses that have most, the oldest
    std::sort(silent.begin(), silent.end(), [&](const Silent& a, const Silent& b) {
      return std::tuple(of_address[b.address], a.since, a.fd) <
             std::tuple(of_address[a.address], b.since, b.fd);
    });
    silent.resize(silent.size() - spec_.most_silent);
    for (const auto& [address, since, fd] : silent) {
      cut(fd, open_[fd], "too many are open that have said nothing", now_s);
      open_.erase(fd);
    }
  }
  next_look_ = now_s + (often ? kLookAtSilent_s : kLookAtAll_s);
}

/// ZeroMQ sees the end of it, and closes it.
void Doorkeeper::cut(int fd, const Connection& connection, const char* why, double now_s) {
  if (!is_peer(fd, connection.peer)) return;  // closed meanwhile
  shutdown(fd, SHUT_RDWR);
  ++cut_;
  const std::string& address = connection.address;
  const auto told = told_.find(address);
  if (told != told_.end() && now_s < told->second + kSayAgain_s) return;
  if (told_.size() >= kMostTold) told_.clear();
  told_[address] = now_s;
  if (news_.size() < kMostTold)
    news_.push_back(fmt::format("a connection from {} was cut: {}", address, why));
}

}  // namespace gossamer::node
