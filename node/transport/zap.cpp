#include "zap.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace gossamer::node {
namespace {

constexpr int kLook_ms = 100;  ///< how often it looks whether it is to end

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// An IPv4 address as such, also where the socket takes IPv6.
std::string without_prefix(const std::string& address) {
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) ? address.substr(kMapped.size()) : address;
}
/// Version, request, domain, address, identity, mechanism, credentials.
using Request = std::vector<zmq::message_t>;

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, Gate& gate)
    : gate_(gate), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::rcvtimeo, kLook_ms);
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the peer's own thread's
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ZapHandler::~ZapHandler() {
  ending_ = true;
  thread_.join();
}

void ZapHandler::serve() {
  while (!ending_) {
    Request request(1);
    if (!socket_.recv(request.front())) continue;
    while (request.back().more()) {
      request.emplace_back();
      if (!socket_.recv(request.back())) break;
    }
    std::string user;
    PublicKey key;
    const bool curve = request.size() == 7 && request[5].to_string_view() == "CURVE" &&
                       request[6].size() == key.bytes.size();
    if (curve) {
      std::memcpy(key.bytes.data(), request[6].data(), key.bytes.size());
      if (gate_.knock(key, without_prefix(request[3].to_string()), steady_s(), unix_now_s()))
        user = text_of(key);
    }
    const std::string number = request.size() > 1 ? request[1].to_string() : "";
    for (const std::string& part : {std::string("1.0"), number, std::string(user.empty() ? "400" : "200"),
                                    std::string(user.empty() ? "not admitted" : "OK"), user})
      socket_.send(zmq::buffer(part), zmq::send_flags::sndmore);
    socket_.send(zmq::message_t(), zmq::send_flags::none);
  }
}

}  // namespace gossamer::node
