#include "round_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "method.h"
#include "simulation.h"

namespace gossamer::node {
namespace {

constexpr Round kLeastRounds = 8;
constexpr double kMostWork = 2e10;  // rows times parameters: some seconds

/// Rounds after which the same peers meet over the same parcels again.
Round cycle_of(const Prepared& prepared) {
  const bool outer = find_method(prepared.job.exchange.method).needs.outer;
  return prepared.plan->schedule.period() * (outer ? local_steps(prepared.job.exchange) : 1);
}

void check_work(const Prepared& prepared, Round rounds) {
  double rows = 0;
  for (const PeerEntry& p : prepared.job.peers) rows += static_cast<double>(p.batch);
  if (rows * static_cast<double>(prepared.parameters) * static_cast<double>(rounds) > kMostWork)
    throw ConfigError(fmt::format("{}: {} rounds of {} peers with {} parameters would take long to simulate",
                                  prepared.job.path, rounds, prepared.job.peers.size(), prepared.parameters));
}

struct Sent {
  double bytes, rounds;  ///< of parcel frames; the peer's own, which differ where nobody waits
};

/// By peer.
std::vector<Sent> sent_in(Prepared prepared, Round rounds) {
  prepared.total_samples *= static_cast<double>(rounds) / static_cast<double>(prepared.rounds);
  prepared.rounds = rounds;
  Simulation simulation(prepared, {});
  std::vector<Sent> sent;
  for (const WorkerResult& r : simulation.run().peers) {
    if (r.outcome != Outcome::finished)
      throw ConfigError(fmt::format("{}: {}", prepared.job.path, r.message));
    sent.push_back({static_cast<double>(r.traffic.data_bytes_out), static_cast<double>(r.rounds)});
  }
  return sent;
}

}  // namespace

RoundBytes bytes_per_round(Job job) {
  job.sim = {};
  job.exchange.density_warmup = std::vector<double>{};
  job.run.evaluate_every = 0;
  const Prepared prepared = prepare(std::move(job));
  const Round cycle = cycle_of(prepared), rounds = cycle * ((kLeastRounds + cycle - 1) / cycle);
  check_work(prepared, 3 * rounds);
  const std::vector<Sent> before = sent_in(prepared, rounds), all = sent_in(prepared, 2 * rounds);
  RoundBytes bytes{.least = 0, .mean = 0, .most = 0, .rounds = rounds};
  for (std::size_t p = 0; p < all.size(); ++p) {
    const double sent = (all[p].bytes - before[p].bytes) / std::max(1.0, all[p].rounds - before[p].rounds);
    bytes.least = p == 0 ? sent : std::min(bytes.least, sent);
    bytes.most = std::max(bytes.most, sent);
    bytes.mean += sent / static_cast<double>(all.size());
  }
  return bytes;
}

}  // namespace gossamer::node
