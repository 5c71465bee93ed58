#pragma once
// Runs that take one step and stand still then, so that what is left is the exchange alone.
#include "sim_job.h"

namespace gossamer::node::test {

/// P peers of 8 rows each pull apart in the first round; after that the rate is 0.
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
