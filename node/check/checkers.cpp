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

constexpr std::array<std::string_view, 10> kGossip{
    "dpsgd",           "local_sgd", "epidemic", "choco",  "deep_squeeze", "gradient_tracking",
    "exact_diffusion", "relay_sum", "push_sum", "moniqua"};
constexpr std::array<std::string_view, 4> kFullReduce{"allreduce", "broadcast", "topk_allgather", "gtopk"};
constexpr std::array<std::string_view, 2> kNewestOnly{"dpsgd", "epidemic"};

/// What one method has of its own to check.
struct OwnCheck {
  std::string_view method;
  std::unique_ptr<Checker> (*make)(const Invariants&, const Prepared&, Findings&);
};
constexpr std::array kOwnChecks{OwnCheck{"push_sum", check_mass},    OwnCheck{"pairwise", check_pairs},
                                OwnCheck{"moniqua", check_residues}, OwnCheck{"diloco", check_outer},
                                OwnCheck{"noloco", check_outer},     OwnCheck{"sparse_loco", check_outer}};

}  // namespace

Invariants invariants_of(const Prepared& prepared) {
  const Job& job = prepared.job;
  const ExchangeSettings& e = job.exchange;
  const bool partial = e.backup > 0, synchronous = e.staleness == std::optional<std::uint64_t>(0) && !partial;
  const bool reuses = !synchronous && !partial && one_of(e.method, kNewestOnly);
  const bool overtakes = (e.method == "push_sum" && !synchronous) || (e.method == "dpsgd" && partial);
  return {.schedule = prepared.plan->schedule,
          .staleness = e.staleness,
          .peers = job.peers.size(),
          .parcels = prepared.plan->parcels.size(),
          .rounds = prepared.rounds,
          .samples = prepared.total_samples,
          .method = e.method,
          .waits_for_neighbours = (one_of(e.method, kGossip) && !partial) || e.method == "ensemble",
          .vectors = e.method == "gradient_tracking" ? 2u : 1u,
          .whole_models = e.method == "ensemble",
          .all_alike = one_of(e.method, kFullReduce) && !partial,
          .reuses_messages = reuses,
          .drops_messages = reuses || overtakes || e.method == "pairwise",
          .best_effort = e.delivery == "best_effort",
          .forged = prepared.job.sim.forge > 0,
          .backup = e.backup,
          .delay = e.outer_delay};
}

Checkers::Checkers(const Prepared& prepared, Observer* next) : invariants_(invariants_of(prepared)) {
  checkers_.push_back(check_frames(prepared, findings_));
  checkers_.push_back(check_links(invariants_, findings_));
  checkers_.push_back(check_rounds(invariants_, prepared, findings_));
  checkers_.push_back(check_floats(invariants_, prepared, findings_));
  for (const OwnCheck& own : kOwnChecks)
    if (invariants_.method == own.method) checkers_.push_back(own.make(invariants_, prepared, findings_));
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
  declined_ += invariants_.method == "pairwise" && m.payload->empty() ? 1 : 0;
  each([&](Observer& o) { o.on_send(p, to, m); });
}
void Checkers::on_message(PeerId p, PeerId from, const Message& m) {
  each([&](Observer& o) { o.on_message(p, from, m); });
}
void Checkers::on_used(PeerId p, PeerId from, const Message& m) {
  each([&](Observer& o) { o.on_used(p, from, m); });
}
void Checkers::on_mixed(PeerId p, Round r, ParcelId parcel) {
  if (invariants_.method == "choco") expected_deltas_ += invariants_.schedule.at(r).out(p).size();
  each([&](Observer& o) { o.on_mixed(p, r, parcel); });
}
void Checkers::on_end(PeerId p, const std::string& message) {
  each([&](Observer& o) { o.on_end(p, message); });
}
void Checkers::on_gradient(PeerId p, const Gradient& g) {
  each([&](Observer& o) { o.on_gradient(p, g); });
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
