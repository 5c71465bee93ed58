// Outer steps against plain loops. Of every peer its outer parameters φ and what its method keeps beside them
// are kept here in double precision and go on, outer round by outer round, from the messages themselves: what
// each peer encoded and what came from the others. Each outer round starts from the peer's own φ, so that
// errors of fp32 do not add up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "checkers.h"
#include "data_plane.h"
#include "frame.h"
#include "hash.h"
#include "link.h"
#include "outer.h"
#include "parcel.h"

namespace gossamer::node {
namespace {

using Own = MethodInvariants::Own;

constexpr Slot kOuter = 2;  ///< φ (outer.h)
constexpr double kTolerance = 1e-4;
using Vector = std::vector<double>;

/// One peer's view of one parcel.
struct State {
  Vector phi, kept;  ///< kept: momentum, or the residual
  Round outer_rounds = 0;
  bool offered = false;
  std::vector<float> x{}, x_offered{};  ///< after its last op, and when the outer round began
  Vector own{};                         ///< what it sent for the outer round under way, decoded
  std::map<PeerId, Vector> came{};      ///< what it used of others, decoded
};

class OuterChecker final : public Checker {
 public:
  OuterChecker(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : invariants_(invariants),
        findings_(findings),
        parcels_(prepared.plan->parcels),
        one_mean_(node::one_mean(invariants.schedule)),
        rate_(prepared.plan->outer_rate),
        decay_(invariants.own == Own::outer_sparse ? kFeedbackDecay.of(prepared.job.exchange)
                                                   : prepared.plan->outer_momentum),
        gamma_(prepared.plan->gamma),
        states_(invariants.peers) {
    for (auto& of_parcels : states_)
      for (const Parcel& p : parcels_) {
        State state;
        for (std::size_t k = 0; k < p.range.size; ++k)
          state.phi.push_back(static_cast<double>(prepared.initial[p.range.begin + k]));
        state.kept.assign(p.range.size, 0);
        of_parcels.push_back(std::move(state));
      }
  }

  void before_encode(PeerId, const op::Encode&, std::span<const float> v,
                     const compress::FeedbackState*) override {
    offer_.assign(v.begin(), v.end());
  }
  void after_encode(PeerId, const op::Encode&, const compress::FeedbackState*,
                    const Payload& payload) override {
    encoded_ = payload;
  }
  void on_used(PeerId peer, PeerId from, const Message& m) override {
    if (invariants_.never_applied(m.round)) return;
    states_[peer][m.parcel].came[from] = decoded(m.payload, m.parcel);
  }
  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    if (const auto* o = std::get_if<op::Encode>(&op)) offered(peer, o->parcel, after);
    const auto* o = std::get_if<op::Combine>(&op);
    if (!o || o->dst != kParameters) return;
    const ParcelId parcel = parcel_of(o->range);
    const auto outer = [](const auto& term) { return term.second == kOuter; };
    if (std::any_of(o->terms.begin(), o->terms.end(), outer)) returned(peer, parcel, after);
    const auto x = after.slot(kParameters).subspan(o->range.begin, o->range.size);
    states_[peer][parcel].x.assign(x.begin(), x.end());
  }

 private:
  const topology::MixingMatrix& weights(const State& s) const {
    return invariants_.schedule.at(s.outer_rounds);
  }
  ParcelId parcel_of(Range r) const {
    ParcelId parcel = 0;
    while (parcels_[parcel].range.begin != r.begin || parcels_[parcel].range.size != r.size) ++parcel;
    return parcel;
  }
  bool gossips() const { return invariants_.own == Own::outer_steps && !one_mean_; }

  /// What the peer may send, from its φ and its x as they stand.
  Vector offer_of(State& s, std::span<const float> x) const {
    Vector v(x.size());
    for (std::size_t k = 0; k < v.size(); ++k) {
      const double learned = s.phi[k] - static_cast<double>(x[k]);
      if (invariants_.own == Own::outer_sparse) {
        v[k] = s.kept[k] = decay_ * s.kept[k] + learned;
      } else if (invariants_.own == Own::outer_pulls) {
        v[k] = rate_ * static_cast<double>(x[k]) + (gamma_ - rate_) * s.phi[k];
      } else if (gossips()) {
        s.kept[k] = decay_ * s.kept[k] + learned;
        v[k] = s.phi[k] - rate_ * (learned + decay_ * s.kept[k]);
      } else {
        v[k] = learned;
      }
    }
    return v;
  }

  void offered(PeerId peer, ParcelId parcel, const DataView& after) {
    State& s = states_[peer][parcel];
    const Range r = parcels_[parcel].range;
    if (s.offered)
      return findings_.report(
          "outer", fmt::format("peer {} offers parcel {} twice before outer round {} is over", peer, parcel,
                               s.outer_rounds));
    s.offered = true;
    s.own = decoded(encoded_, parcel);
    const auto x = after.slot(kParameters).subspan(r.begin, r.size);
    s.x_offered.assign(x.begin(), x.end());
    const Vector expected = offer_of(s, x);
    compare("offers", peer, parcel, s, {offer_.begin(), offer_.end()}, expected, size_of(s, x));
  }

  /// φ after the outer round.
  Vector absorbed(PeerId peer, State& s) const {
    const auto& w = weights(s);
    Vector mean(s.phi.size(), 0);
    double own = static_cast<double>(w.self_weight(peer)), scale = 1;
    if (gossips()) {
      double least = 1;
      for (PeerId i = 0; i < invariants_.peers; ++i)
        least = std::min(least, static_cast<double>(w.self_weight(i)));
      if (least < 0.5) scale = 0.5 / (1 - least);
      own = 1 - scale * (1 - own);
    }
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] = own * s.own[k];
    for (const auto& e : w.in(peer))
      for (std::size_t k = 0; k < mean.size(); ++k)
        mean[k] += scale * static_cast<double>(e.weight) * s.came.at(e.peer)[k];
    if (gossips()) return mean;
    Vector phi(s.phi);
    for (std::size_t k = 0; k < phi.size(); ++k) {
      if (invariants_.own == Own::outer_sparse) {
        s.kept[k] -= s.own[k];
        phi[k] -= rate_ * mean[k];
      } else if (invariants_.own == Own::outer_pulls) {
        s.kept[k] = decay_ * s.kept[k] + mean[k] - gamma_ * phi[k];
        phi[k] += s.kept[k];
      } else {
        s.kept[k] = decay_ * s.kept[k] + mean[k];
        phi[k] -= rate_ * (mean[k] + decay_ * s.kept[k]);
      }
    }
    return phi;
  }

  /// x goes back to φ, with what was learned since the outer round began: it is over.
  void returned(PeerId peer, ParcelId parcel, const DataView& after) {
    const Range r = parcels_[parcel].range;
    State& s = states_[peer][parcel];
    const auto row = weights(s).in(peer);
    const bool all = s.came.size() == row.size() && std::all_of(row.begin(), row.end(), [&](const auto& e) {
                       return s.came.contains(e.peer);
                     });
    if (!s.offered || !all)
      return findings_.report("outer",
                              fmt::format("outer round {} of parcel {} ends at peer {} with {} messages of "
                                          "{} neighbours{}",
                                          s.outer_rounds, parcel, peer, s.came.size(), row.size(),
                                          s.offered ? "" : ", its own not made"));
    const auto phi = after.slot(kOuter).subspan(r.begin, r.size);
    const auto x = after.slot(kParameters).subspan(r.begin, r.size);
    const Vector expected = absorbed(peer, s);
    const double size = size_of(s, phi);
    compare("ends an outer round with φ =", peer, parcel, s, {phi.begin(), phi.end()}, expected, size);
    Vector from_here;
    for (std::size_t k = 0; k < phi.size(); ++k)
      from_here.push_back(static_cast<double>(phi[k]) + static_cast<double>(s.x[k]) -
                          static_cast<double>(s.x_offered[k]));
    compare("goes on with x =", peer, parcel, s, {x.begin(), x.end()}, from_here,
            std::max(size, size_of(s, x)));
    check_alike(peer, parcel, s, hash_floats(phi));
    s.phi.assign(phi.begin(), phi.end());
    s.came.clear();
    s.offered = false;
    ++s.outer_rounds;
  }

  void check_alike(PeerId peer, ParcelId parcel, const State& s, std::uint64_t hash) {
    if (!one_mean_ || invariants_.own == Own::outer_pulls) return;
    const auto [at, first] = hashes_.try_emplace({parcel, s.outer_rounds}, hash);
    if (!first && at->second != hash)
      findings_.report("outer",
                       fmt::format("after outer round {} of parcel {} peer {} has other outer parameters "
                                   "than another peer",
                                   s.outer_rounds, parcel, peer));
  }

  /// Of what goes into an entry, at most.
  static double size_of(const State& s, std::span<const float> x) {
    double size = 0;
    for (const float v : x) size = std::max(size, std::abs(static_cast<double>(v)));
    for (const Vector* vector : {&s.phi, &s.kept, &s.own})
      for (const double v : *vector) size = std::max(size, std::abs(v));
    for (const auto& [from, vector] : s.came)
      for (const double v : vector) size = std::max(size, std::abs(v));
    return size;
  }

  void compare(const char* does, PeerId peer, ParcelId parcel, const State& s, const Vector& found,
               const Vector& expected, double size) {
    for (std::size_t k = 0; k < expected.size(); ++k)
      if (!(std::abs(found[k] - expected[k]) <= kTolerance * size))
        return findings_.report(
            "outer", fmt::format("peer {} {} {} for entry {} of parcel {} in outer round {}; plain "
                                 "loops over the messages make {} of it",
                                 peer, does, found[k], k, parcel, s.outer_rounds, expected[k]));
  }

  Vector decoded(const Payload& payload, ParcelId parcel) const {
    std::vector<float> v(parcels_[parcel].range.size, 0.0f);
    compress::decode_add(*payload, 1.0f, v);
    return {v.begin(), v.end()};
  }

  Invariants invariants_;
  Findings& findings_;
  SharedList<Parcel> parcels_;
  bool one_mean_;
  double rate_, decay_, gamma_;
  std::vector<std::vector<State>> states_;                      ///< [peer][parcel]
  std::vector<float> offer_;                                    ///< what was encoded last
  Payload encoded_;                                             ///< to what
  std::map<std::pair<ParcelId, Round>, std::uint64_t> hashes_;  ///< of φ, by parcel and outer round
};

}  // namespace

std::unique_ptr<Checker> check_outer(const Invariants& invariants, const Prepared& prepared,
                                     Findings& findings) {
  return std::make_unique<OuterChecker>(invariants, prepared, findings);
}

}  // namespace gossamer::node
