#include "checkers.h"

#include <algorithm>
#include <utility>

#include "frame.h"
#include "link.h"

namespace gossamer::node {
namespace {

/// What a method has of its own to check.
std::unique_ptr<Checker> own_checker(const Invariants& invariants, const Prepared& prepared,
                                     Findings& findings) {
  using Own = MethodInvariants::Own;
  switch (invariants.own) {
    case Own::none:
      return nullptr;
    case Own::mass:
      return check_mass(invariants, prepared, findings);
    case Own::pairs:
      return check_pairs(invariants, prepared, findings);
    case Own::residues:
      return check_residues(invariants, prepared, findings);
    case Own::tracking:
      return check_tracking(invariants, prepared, findings);
    case Own::outer_steps:
    case Own::outer_pulls:
    case Own::outer_sparse:
      return check_outer(invariants, prepared, findings);
  }
  return nullptr;
}

/// Of any peer's model.
std::size_t most_parcels(const Plan& plan) {
  std::size_t most = plan.parcels.size();
  for (const auto& parcels : plan.parcels_by_peer) most = std::max(most, parcels.size());
  return most;
}

constexpr std::size_t kFrames = 0, kLinks = 1;  ///< among the checkers

}  // namespace

Invariants invariants_of(const Prepared& prepared) {
  const Job& job = prepared.job;
  const ExchangeSettings& e = job.exchange;
  const bool partial = closes_early(e), by_time = e.straggler == "without";
  const bool synchronous = e.staleness == std::optional<std::uint64_t>(0) && !partial;
  const Method& method = find_method(e.method);
  const MethodInvariants& holds = method.invariants;
  using WaitsFor = MethodInvariants::WaitsFor;
  const bool superseded = partial && method.needs.partial == Needs::Partial::parameters;
  const bool reuses = !synchronous && !partial && holds.newest_only;
  const bool overtakes = (holds.overtakes && !synchronous) || superseded;
  return {.schedule = prepared.plan->schedule,
          .staleness = e.staleness,
          .peers = job.peers.size(),
          .parcels = most_parcels(*prepared.plan),
          .rows = prepared.plan->rows != nullptr,
          .rounds = prepared.rounds,
          .samples = prepared.total_samples,
          .own = holds.own,
          .waits_for_neighbours = holds.waits_for != WaitsFor::nothing && !partial,
          .vectors = holds.vectors,
          .whole_models = holds.waits_for == WaitsFor::models,
          .all_alike = holds.all_alike && !partial,
          .adds_what_came = partial && !superseded,
          .leaves_out = holds.leaves_out,
          .reuses_messages = reuses,
          .drops_messages = reuses || overtakes || holds.own == MethodInvariants::Own::pairs,
          .best_effort = e.delivery == "best_effort",
          .forged = prepared.job.sim.forge > 0,
          .backup = by_time ? job.peers.size() : e.backup,
          .delay = e.outer_delay,
          .former = prepared.plan->former};
}

Checkers::Checkers(const Prepared& prepared, Observer* next, bool from_initial)
    : invariants_(invariants_of(prepared)) {
  checkers_.push_back(check_frames(prepared, findings_));
  checkers_.push_back(check_links(invariants_, findings_));
  checkers_.push_back(check_rounds(invariants_, prepared, findings_));
  checkers_.push_back(check_floats(invariants_, prepared, findings_));
  if (from_initial || invariants_.own == MethodInvariants::Own::tracking)
    if (auto own = own_checker(invariants_, prepared, findings_)) checkers_.push_back(std::move(own));
  if (auto trained = check_trained(prepared, findings_)) checkers_.push_back(std::move(trained));
  if (next) all_.push_back({next, true});  // first, so that a record holds what breaks a rule
  for (const auto& c : checkers_)
    all_.push_back({c.get(), c == checkers_[kFrames] || c == checkers_[kLinks]});
  if (!invariants_.rows) return;
  checkers_.push_back(check_rows_told(invariants_, findings_));
  all_.push_back({checkers_.back().get(), true});
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
  round_begun_ = findings_.time;
  each([&](Observer& o) { o.on_round(p, r); });
}
void Checkers::on_send(PeerId p, PeerId to, const Message& m) {
  if (m.parcel < invariants_.parcels) ++messages_;
  chunked_ |= m.payload->size() > kChunkBytes;
  declined_ += invariants_.own == MethodInvariants::Own::pairs && m.payload->empty() ? 1 : 0;
  each(m.parcel, [&](Observer& o) { o.on_send(p, to, m); });
}
void Checkers::on_message(PeerId p, PeerId from, const Message& m) {
  each(m.parcel, [&](Observer& o) { o.on_message(p, from, m); });
}
void Checkers::on_used(PeerId p, PeerId from, const Message& m) {
  each(m.parcel, [&](Observer& o) { o.on_used(p, from, m); });
}
void Checkers::on_mixed(PeerId p, Round r, ParcelId parcel) {
  if (invariants_.leaves_out && parcel < invariants_.parcels)
    expected_deltas_ += invariants_.schedule.at(r).out(p).size();
  each(parcel, [&](Observer& o) { o.on_mixed(p, r, parcel); });
}
void Checkers::on_end(PeerId p, const std::string& message) {
  each([&](Observer& o) { o.on_end(p, message); });
}
void Checkers::on_gradient(PeerId p, const Gradient& g) {
  each([&](Observer& o) { o.on_gradient(p, g); });
}
void Checkers::on_rows(PeerId p, std::span<const std::uint32_t> rows) {
  each([&](Observer& o) { o.on_rows(p, rows); });
}
void Checkers::on_view(PeerId p, const std::vector<std::string>& members, Round rounds_before) {
  each([&](Observer& o) { o.on_view(p, members, rounds_before); });
}
void Checkers::on_op(PeerId p, const Op& op, const DataView& after) {
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
