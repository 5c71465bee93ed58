#include "asking.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "endpoint.h"
#include "gossamer/node/errors.h"
#include "listening.h"
#include "uninterrupted.h"
#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kWait = std::chrono::milliseconds(200);
constexpr double kAskAgain_s = 1, kDialAgain_s = 3;
/// As long as it may take until a peer that was killed is missed.
constexpr double kTakenFor_s = 8;

double seconds_from(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

zmq::socket_t dialled(zmq::context_t& context, const MemberAddress& member,
                      const std::optional<ClientKeys>& keys) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::ipv6, has_ipv6());
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxFrameBytes));
  if (keys) lock(socket, *keys->own, &keys->server);
  socket.connect(member.address);
  return socket;
}

std::optional<Terms> read_terms(const zmq::message_t& message) {
  std::vector<std::uint64_t> aligned((message.size() + 7) / 8);
  std::memcpy(aligned.data(), message.data(), message.size());
  const auto frame = decode_frame({reinterpret_cast<const std::byte*>(aligned.data()), message.size()});
  if (!frame) return std::nullopt;
  const auto* body = std::get_if<TermsBody>(&frame->body);
  return body ? std::optional(Terms{*body, frame->header.job}) : std::nullopt;
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
  zmq::context_t context{1};
  zmq::socket_t socket = dialled(context, member, keys);
  FrameHeader header;
  header.sender = kNoPeer;
  const FrameBytes question = encode_frame({header, AskBody{name}});
  const auto begin = Clock::now();
  auto since = begin;
  std::optional<Clock::time_point> asked;
  while (seconds_from(begin) < timeout_s && !(stop && stop())) {
    if (seconds_from(since) >= kDialAgain_s) {  // who was turned away once is not let in over that one
      socket = dialled(context, member, keys);
      since = Clock::now();
      asked.reset();
    }
    if (!asked || seconds_from(*asked) >= kAskAgain_s) {
      if (keys && keys->certificate) show(socket, *keys->certificate);
      zmq::message_t copy(question->data(), question->size());
      send_uninterrupted(socket, copy, zmq::send_flags::dontwait);
      asked = Clock::now();
    }
    zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, kWait.count()) <= 0) continue;
    zmq::message_t message;
    if (!receive_uninterrupted(socket, message, zmq::recv_flags::dontwait)) continue;
    const auto terms = read_terms(message);
    if (!terms) continue;
    if (terms->body.refusal.empty()) return *terms;
    if (!terms->body.taken || seconds_from(begin) >= kTakenFor_s)
      throw ConfigError(fmt::format("--join {}: {}{}", address, terms->body.refusal,
                                    terms->body.taken ? "; choose another --name" : ""));
  }
  throw ConfigError(
      fmt::format("--join {}: {} within {:g} s (run.join_timeout); expected the address of a "
                  "peer of a run that is under way{}",
                  address, stop && stop() ? "interrupted without an answer" : "no answer", timeout_s,
                  keys ? fmt::format(", whose public key is {}, and which lets in {}", text_of(keys->server),
                                     text_of(keys->own->public_key))
                       : ""));
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
