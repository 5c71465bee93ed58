#include "asking.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>
#include <zmq.hpp>

#include "endpoint.h"
#include "gossamer/node/errors.h"
#include "hash.h"
#include "member_line.h"

namespace gossamer::node {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
/// As long as it may take until a peer that was killed is missed.
constexpr double kTakenFor_s = 8;
/// Of the initial parameters, before another member is asked for them.
constexpr double kPiecePatience_s = 10;
constexpr std::size_t kPiecesUnderWay = 4;

double seconds_from(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Whole, or nothing where that member does not give them.
std::optional<AlignedFloats> fetch(MemberLine& line, std::size_t floats, const std::function<bool()>& stop) {
  AlignedFloats all(floats);
  const auto bytes = std::as_writable_bytes(std::span<float>(all));
  const std::size_t pieces = (bytes.size() + kInitialPieceBytes - 1) / kInitialPieceBytes;
  std::vector<bool> here(pieces);
  std::size_t asked = 0, left = pieces;
  auto came = Clock::now();
  while (left > 0 && seconds_from(came) < kPiecePatience_s && !(stop && stop())) {
    if (line.silent()) asked = std::find(here.begin(), here.end(), false) - here.begin();
    for (; asked < pieces && asked < pieces - left + kPiecesUnderWay; ++asked)
      if (!here[asked]) line.ask(asked * kInitialPieceBytes);
    const auto terms = line.hear(200ms);
    if (!terms || terms->body.initial.empty()) continue;
    const std::size_t at = terms->body.initial_at, piece = at / kInitialPieceBytes;
    if (at % kInitialPieceBytes != 0 || piece >= pieces || here[piece] ||
        terms->body.initial.size() != std::min(kInitialPieceBytes, bytes.size() - at))
      continue;
    std::copy(terms->body.initial.begin(), terms->body.initial.end(), bytes.begin() + at);
    here[piece] = true;
    --left;
    came = Clock::now();
  }
  return left == 0 ? std::optional(std::move(all)) : std::nullopt;
}

}  // namespace

void check_address(const std::string& text, const std::string& asked) {
  const std::size_t colon = text.rfind(':');
  const bool right = text.starts_with("tcp://") && colon != std::string::npos && colon > 6 &&
                     colon + 1 < text.size() && colon + 6 >= text.size() &&
                     text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!right) throw ConfigError(fmt::format("{} {}: expected tcp://host:port", asked, text));
}

MemberAddress member_address(const std::string& text, const std::string& asked) {
  const std::size_t at = text.find('#');
  MemberAddress member{text.substr(0, at)};
  check_address(member.address, asked);
  if (at == std::string::npos) return member;
  try {
    member.key = read_public_key(std::string_view(text).substr(at + 1));
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("{} {}: behind '#': {}", asked, text, error.what()));
  }
  return member;
}

Terms ask_for_terms(const MemberAddress& member, const std::optional<ClientKeys>& keys,
                    const std::string& name, double timeout_s, const std::function<bool()>& stop) {
  const std::string& address = member.address;
  MemberLine line(std::make_shared<zmq::context_t>(1), member, keys, name);
  const auto begin = Clock::now();
  while (seconds_from(begin) < timeout_s && !(stop && stop())) {
    if (line.silent()) line.ask();
    const auto terms = line.hear(200ms);
    if (!terms) continue;
    if (terms->body.refusal.empty()) return *terms;
    if (!terms->body.taken || seconds_from(begin) >= kTakenFor_s)
      throw ConfigError(fmt::format("--join {}: {}{}", address, terms->body.refusal,
                                    terms->body.taken ? "; choose another --name" : ""));
  }
  if (stop && stop()) throw Interrupted(fmt::format("--join {}: interrupted before it answered", address));
  throw ConfigError(
      fmt::format("--join {}: no answer within {:g} s (run.join_timeout); expected the address of a "
                  "peer of a run that is under way{}",
                  address, timeout_s,
                  keys ? fmt::format(", whose public key is {}, and which lets in {}", text_of(keys->server),
                                     text_of(keys->own->public_key))
                       : ""));
}

std::optional<OthersInitial> ask_for_initial(const std::vector<AskedMember>& members, const std::string& name,
                                             const InitialSpec& own, double timeout_s,
                                             const std::function<bool()>& stop) {
  const auto context = std::make_shared<zmq::context_t>(1);
  std::vector<MemberLine> lines;
  for (const AskedMember& member : members) lines.emplace_back(context, member.member, member.keys, name);
  const auto begin = Clock::now();
  while (!lines.empty() && seconds_from(begin) < timeout_s && !(stop && stop())) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].silent()) lines[i].ask();
      const auto terms = lines[i].hear(std::chrono::milliseconds(i == 0 ? 20 : 0));
      if (!terms) continue;
      if (terms->body.layers != own.layers || terms->body.parameters_hash == own.hash)
        return OthersInitial{terms->body.from, {}};
      std::optional<AlignedFloats> all;
      if (terms->version >= kInitialSince) all = fetch(lines[i], own.floats, stop);
      if (all && hash_floats(*all) == terms->body.parameters_hash)
        return OthersInitial{terms->body.from, std::move(*all)};
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));  // another one has them, too
      break;
    }
  }
  return std::nullopt;
}

std::string own_host_towards(const std::string& address) {
  const Endpoint there = endpoint_of(address);
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  if (const int error = getaddrinfo(there.host.c_str(), there.port.c_str(), &wanted, &found); error != 0)
    throw ConfigError(fmt::format("--join {}: {}", address, gai_strerror(error)));
  std::string host;
  for (const addrinfo* a = found; a != nullptr && host.empty(); a = a->ai_next) {
    const int s = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    if (connect(s, a->ai_addr, a->ai_addrlen) == 0 &&  // of datagrams: nothing is sent
        getsockname(s, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      host = a->ai_family == AF_INET6 ? fmt::format("[{}]", text.data()) : text.data();
    close(s);
  }
  freeaddrinfo(found);
  if (host.empty())
    throw ConfigError(fmt::format(
        "--join {}: this machine has no address from which that one is reached; expected --address "
        "tcp://host:port, by which others reach this peer",
        address));
  return host;
}

}  // namespace gossamer::node
