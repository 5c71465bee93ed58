#include "member_line.h"

#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "listening.h"
#include "uninterrupted.h"
#include "zmq_sockets.h"

namespace gossamer::node {
namespace {

constexpr auto kAskAgain = std::chrono::seconds(1), kDialAgain = std::chrono::seconds(3);

std::optional<Terms> read_terms(const zmq::message_t& message) {
  std::vector<std::uint64_t> aligned((message.size() + 7) / 8);
  std::memcpy(aligned.data(), message.data(), message.size());
  auto frame = decode_frame({reinterpret_cast<const std::byte*>(aligned.data()), message.size()});
  if (!frame) return std::nullopt;
  auto* body = std::get_if<TermsBody>(&frame->body);
  if (!body) return std::nullopt;
  return Terms{std::move(*body), frame->header.job, frame->header.version};
}

}  // namespace

MemberLine::MemberLine(std::shared_ptr<zmq::context_t> context, MemberAddress member,
                       std::optional<ClientKeys> keys, const std::string& name)
    : context_(std::move(context)), member_(std::move(member)), keys_(std::move(keys)), name_(name) {
  dial();
}

void MemberLine::dial() {
  socket_ = zmq::socket_t(*context_, zmq::socket_type::dealer);
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::ipv6, has_ipv6());
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxFrameBytes));
  if (keys_) lock(socket_, *keys_->own, &keys_->server);
  socket_.connect(member_.address);
  dialled_ = Clock::now();
  fresh_ = true;
}

void MemberLine::ask(std::uint64_t initial_at) {
  if (Clock::now() >= dialled_ + kDialAgain) dial();
  if ((fresh_ || initial_at == AskBody::kNothing) && keys_ && keys_->certificate)
    show(socket_, *keys_->certificate);
  fresh_ = false;
  FrameHeader header;
  header.sender = kNoPeer;
  const FrameBytes question = encode_frame({header, AskBody{name_, initial_at}});
  zmq::message_t copy(question->data(), question->size());
  send_uninterrupted(socket_, copy, zmq::send_flags::dontwait);
  asked_ = Clock::now();
}

bool MemberLine::silent() const { return Clock::now() >= asked_ + kAskAgain; }

std::optional<Terms> MemberLine::hear(std::chrono::milliseconds wait) {
  zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
  if (zmq_poll(&item, 1, wait.count()) <= 0) return std::nullopt;
  zmq::message_t message;
  if (!receive_uninterrupted(socket_, message, zmq::recv_flags::dontwait)) return std::nullopt;
  auto terms = read_terms(message);
  if (terms) dialled_ = Clock::now();  // a connection that serves is not made anew
  return terms;
}

}  // namespace gossamer::node
