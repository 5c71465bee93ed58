#pragma once
// Methods with outer parameters φ written plainly over all peers at once, without messages: who meets when,
// and how x follows φ. A method says what happens at a outer round.
#include <vector>

#include "outer.h"
#include "sim_job.h"

namespace gossamer::node::test {

class PlainOuter {
 public:
  using Vectors = std::vector<AlignedFloats>;

  explicit PlainOuter(const Prepared& prepared)
      : prepared_(prepared),
        section_(prepared.job.exchange),
        parcels_(make_parcels(prepared.layers, section_.parcel)),
        fragments_(local_steps(section_), section_.fragments, parcels_),
        schedule_(topology::make_schedule(prepared.job.graph)),
        peers_(prepared),
        outer_(peers_.x),
        at_outer_round_(peers_.x) {}
  virtual ~PlainOuter() = default;

  void go() {
    for (Round t = 0; t < prepared_.rounds; ++t) {
      const Vectors u = peers_.steps(t);
      for (std::size_t i = 0; i < count(); ++i)
        for (std::size_t k = 0; k < u[i].size(); ++k) peers_.x[i][k] -= u[i][k];
      for (ParcelId p = 0; p < parcels_.size(); ++p) {
        if (fragments_.exchange(t, p)) {
          copy(p, peers_.x, at_outer_round_);
          begin(p, t);
        }
        const Round delay = section_.outer_delay;
        const auto number = t >= delay ? fragments_.exchange(t - delay, p) : std::nullopt;
        if (!number) continue;
        end(p, schedule_.at(*number).dense());
        for_entries(
            p, [&](std::size_t i, std::size_t k) { peers_.x[i][k] += outer_[i][k] - at_outer_round_[i][k]; });
      }
    }
  }
  const Vectors& x() const { return peers_.x; }
  const Vectors& outer() const { return outer_; }

 protected:
  /// What is told of the parcel by all peers, from x and φ.
  virtual void begin(ParcelId p, Round round) = 0;
  /// φ's next value by the outer round's P×P weights.
  virtual void end(ParcelId p, const std::vector<double>& w) = 0;

  std::size_t count() const { return peers_.peers(); }
  Vectors zeros() const { return Vectors(count(), AlignedFloats(peers_.size(), 0)); }
  /// Σ_j W_ij v_j[k]
  double mean(const std::vector<double>& w, const Vectors& v, std::size_t i, std::size_t k) const {
    double sum = 0;
    for (std::size_t j = 0; j < count(); ++j) sum += w[i * count() + j] * static_cast<double>(v[j][k]);
    return sum;
  }
  template <class Action>
  void for_entries(ParcelId p, const Action& action) const {
    const Range r = parcels_[p].range;
    for (std::size_t i = 0; i < count(); ++i)
      for (std::size_t k = r.begin; k < r.begin + r.size; ++k) action(i, k);
  }
  void copy(ParcelId p, const Vectors& from, Vectors& to) const {
    for_entries(p, [&](std::size_t i, std::size_t k) { to[i][k] = from[i][k]; });
  }

  const Prepared& prepared_;
  const ExchangeSettings& section_;
  std::vector<Parcel> parcels_;
  Fragments fragments_;
  topology::Schedule schedule_;
  PlainPeers peers_;
  Vectors outer_, at_outer_round_;
};

/// The run's x and, where no outer round is under way at its end, φ (slot 2) are what the plain method gives.
template <class Plain>
bool is_formula(const Settings& settings, double tolerance = 2e-5) {
  Run run(small_job(settings));
  Plain plain(run.prepared);
  plain.go();
  bool same = run.go().all(Outcome::finished);
  for (PeerId p = 0; p < plain.x().size(); ++p) {
    same = same && largest_difference(run.simulation.parameters(p), plain.x()[p]) < tolerance;
    if (run.prepared.job.exchange.outer_delay == 0)
      same = same && largest_difference(run.simulation.slot(p, 2), plain.outer()[p]) < tolerance;
  }
  return same && largest_difference(run.simulation.parameters(0), run.prepared.initial) > 0.05;
}

/// In pieces that are exchanged at their own times, while training goes on.
inline Settings streamed() {
  return {"exchange.fragments=3", "exchange.outer_delay=2", "exchange.parcel=32", "model.kind=mlp"};
}

}  // namespace gossamer::node::test
