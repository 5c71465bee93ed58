#include "checkers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "frame.h"
#include "link.h"

namespace gossamer::node {
namespace {

template <std::size_t N>
bool one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 8> kGossip{"dpsgd",           "local_sgd",    "epidemic",
                                                  "choco",           "deep_squeeze", "gradient_tracking",
                                                  "exact_diffusion", "relay_sum"};
constexpr std::array<std::string_view, 4> kFullReduce{"allreduce", "broadcast", "topk_allgather", "gtopk"};
constexpr std::array<std::string_view, 2> kNewestOnly{"dpsgd", "epidemic"};

}  // namespace

Promises promises_of(const Prepared& prepared) {
  const Job& job = prepared.job;
  const std::string& method = job.exchange.method;
  const auto staleness = job.exchange.staleness;
  const bool gossip = one_of(method, kGossip), full = one_of(method, kFullReduce);
  const bool synchronous = staleness == std::optional<std::uint64_t>(0);
  return {prepared.plan->schedule,
          staleness,
          job.peers.size(),
          prepared.plan->parcels.size(),
          method,
          gossip,
          method == "gradient_tracking" ? 2u : 1u,
          full,
          !synchronous && one_of(method, kNewestOnly),
          gossip || full || method == "none"};
}

Checkers::Checkers(const Prepared& prepared, Observer* next) : promises_(promises_of(prepared)) {
  checkers_.push_back(check_frames(prepared, findings_));
  if (promises_.reliable) checkers_.push_back(check_links(promises_, findings_));
  checkers_.push_back(check_rounds(promises_, prepared, findings_));
  checkers_.push_back(check_floats(promises_, prepared, findings_));
  if (next) all_.push_back(next);  // first, so that a record holds what breaks a rule
  for (const auto& c : checkers_) all_.push_back(c.get());
}

void Checkers::at_end(const SimResult& result) {
  for (const auto& c : checkers_)
    if (!first()) c->at_end(result);
}

std::uint64_t Checkers::skipped_encodes() const {
  return expected_deltas_ > messages_ ? expected_deltas_ - messages_ : 0;
}

void Checkers::on_time(double time) {
  findings_.time = time;
  each([&](Observer& o) { o.on_time(time); });
}
void Checkers::on_frame(Fate fate, PeerId from, PeerId to, std::span<const std::byte> frame) {
  ++frames_[static_cast<std::size_t>(fate)];
  each([&](Observer& o) { o.on_frame(fate, from, to, frame); });
}
void Checkers::on_crash(PeerId p) {
  each([&](Observer& o) { o.on_crash(p); });
}
void Checkers::on_round(PeerId p, Round r) {
  each([&](Observer& o) { o.on_round(p, r); });
}
void Checkers::on_send(PeerId p, PeerId to, const Message& m) {
  ++messages_;
  chunked_ |= m.payload->size() > kChunkBytes;
  each([&](Observer& o) { o.on_send(p, to, m); });
}
void Checkers::on_message(PeerId p, PeerId from, const Message& m) {
  each([&](Observer& o) { o.on_message(p, from, m); });
}
void Checkers::on_used(PeerId p, PeerId from, const Message& m) {
  each([&](Observer& o) { o.on_used(p, from, m); });
}
void Checkers::on_mixed(PeerId p, Round r, ParcelId parcel) {
  if (promises_.method == "choco") expected_deltas_ += promises_.schedule.at(r).out(p).size();
  each([&](Observer& o) { o.on_mixed(p, r, parcel); });
}
void Checkers::on_end(PeerId p, const std::string& message) {
  each([&](Observer& o) { o.on_end(p, message); });
}
void Checkers::on_gradient(PeerId p, Round r) {
  each([&](Observer& o) { o.on_gradient(p, r); });
}
void Checkers::on_op(PeerId p, const Op& op, const Replica& after) {
  each([&](Observer& o) { o.on_op(p, op, after); });
}
void Checkers::before_encode(PeerId p, const op::Encode& e, std::span<const float> v,
                             const compress::FeedbackState* state) {
  each([&](Observer& o) { o.before_encode(p, e, v, state); });
}
void Checkers::after_encode(PeerId p, const op::Encode& e, const compress::FeedbackState* state,
                            const Payload& payload) {
  each([&](Observer& o) { o.after_encode(p, e, state, payload); });
}

}  // namespace gossamer::node
