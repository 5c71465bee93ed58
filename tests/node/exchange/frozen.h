#pragma once
// Runs that take a step or a few and stand still then, so that what is left is the exchange alone.
#include "data_plane.h"
#include "mass.h"
#include "observer.h"
#include "sim_job.h"

namespace gossamer::node::test {

/// P peers of 8 rows each pull apart in the first round; after that the rate is 0. Where nobody waits that is
/// when nine tenths of them have taken a step, or some of them more.
inline Settings frozen(std::size_t peers, const std::string& method, const std::string& graph,
                       std::size_t rounds, const Settings& more = {}) {
  return Settings{"peers=" + std::to_string(peers),
                  "graph.kind=" + graph,
                  "model.kind=quadratic",
                  "data.rows=" + std::to_string(8 * peers),
                  "optimizer.batch=8",
                  "optimizer.kind=sgd",
                  "optimizer.learning_rate=0.3",
                  "optimizer.schedule=step",
                  "optimizer.step_every=" + std::to_string(0.9 / static_cast<double>(rounds)),
                  "optimizer.step_factor=1e-30",
                  "run.rounds=" + std::to_string(rounds),
                  "exchange.codec=dense",
                  "exchange.method=" + method} +
         more;
}

/// Σ over peers of their parameters; the slot is where the method keeps them.
inline std::vector<double> sum_of(const Simulation& simulation, std::size_t peers, Slot slot = kParameters) {
  std::vector<double> sum(simulation.slot(0, slot).size(), 0);
  for (PeerId p = 0; p < peers; ++p)
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += static_cast<double>(simulation.slot(p, slot)[k]);
  return sum;
}

/// What all peers' steps come to, in double precision and in push-sum's units. They are told of as they are
/// taken: ask when the replicas have been looked at.
class StepsTaken final : public Observer {
 public:
  void on_op(PeerId, const Op& op, const DataView& after) override {
    if (const auto* extended = std::get_if<op::Extended>(&op))
      visit_command<op::Push>(extended->command,
                              [&](const auto& push) { add(push.range, after); });  // at the size that counts
    else if (const auto* combine = std::get_if<op::Combine>(&op);
             combine && combine->keep == 1 && combine->terms == kMinusStep)
      add(combine->range, after);
  }
  double of(std::size_t entry) const { return entry < sum_.size() ? sum_[entry] : 0; }
  std::uint64_t units_of(std::size_t entry) const { return entry < units_.size() ? units_[entry] : 0; }

 private:
  void add(Range r, const DataView& after) {
    const auto u = after.slot(kGradient);
    sum_.resize(u.size());
    units_.resize(u.size());
    for (std::size_t k = r.begin; k < r.begin + r.size; ++k) {
      sum_[k] += static_cast<double>(u[k]);
      units_[k] += static_cast<std::uint64_t>(std::llrint(static_cast<double>(u[k]) * kMassOne));
    }
  }
  inline static const std::vector<std::pair<float, Slot>> kMinusStep{{-1.0f, kGradient}};
  std::vector<double> sum_;
  std::vector<std::uint64_t> units_;
};

/// Σ over peers of x⁰ less all steps.
inline std::vector<double> kept_sum(const Prepared& prepared, std::size_t peers, const StepsTaken& steps) {
  std::vector<double> sum(prepared.initial.size());
  for (std::size_t k = 0; k < sum.size(); ++k)
    sum[k] = static_cast<double>(peers) * static_cast<double>(prepared.initial[k]) - steps.of(k);
  return sum;
}

/// The same after the first step, before any exchange.
inline std::vector<double> first_sum(const Prepared& prepared) {
  PlainPeers peers(prepared);
  std::vector<double> sum(peers.size(), 0);
  const auto u = peers.steps(0);
  for (std::size_t p = 0; p < peers.peers(); ++p)
    for (std::size_t k = 0; k < sum.size(); ++k)
      sum[k] += static_cast<double>(prepared.initial[k]) - static_cast<double>(u[p][k]);
  return sum;
}

inline double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Σ_i ‖x_i − x̄‖² / P
inline double consensus_distance(const Simulation& simulation, std::size_t peers) {
  const auto sum = sum_of(simulation, peers);
  double total = 0;
  for (PeerId p = 0; p < peers; ++p)
    for (std::size_t k = 0; k < sum.size(); ++k) {
      const double d = static_cast<double>(simulation.parameters(p)[k]) - sum[k] / static_cast<double>(peers);
      total += d * d;
    }
  return total / static_cast<double>(peers);
}

}  // namespace gossamer::node::test
