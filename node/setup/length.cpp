#include "length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "method.h"

namespace gossamer::node {
namespace {

constexpr double kMostRounds = 0x1p53;

/// In rounds that close early a peer may fall behind by itself, and is waited for by as many as need it.
bool nobody_waits(const ExchangeSettings& e) { return !e.staleness && !closes_early(e); }

std::uint64_t rounds_of(const Job& job, std::uint64_t rounds_per_epoch) {
  if (job.run.rounds > 0) return job.run.rounds;
  if (job.run.epochs * static_cast<double>(rounds_per_epoch) > kMostRounds)
    throw ConfigError(fmt::format(
        "{}: run.epochs = {} are more rounds than can be counted; expected at most {:.0f} epochs "
        "of {} rounds",
        job.path, job.run.epochs, kMostRounds / static_cast<double>(rounds_per_epoch), rounds_per_epoch));
  return static_cast<std::uint64_t>(
      std::max(1.0, std::round(job.run.epochs * static_cast<double>(rounds_per_epoch))));
}

}  // namespace

std::shared_ptr<const optim::Split> deal(const Prepared& p) {
  optim::SplitSpec split{p.job.split, p.job.run.seed, {}};
  for (const PeerEntry& peer : p.job.peers) split.batches.push_back(peer.batch);
  split.names = p.job.peer_names();
  split.homes = p.homes;
  split.stays = p.job.private_data;
  return std::make_shared<const optim::Split>(split, p.data.train);
}

void set_length(Prepared& p, std::uint64_t steps_per_epoch) {
  p.rounds_per_epoch = std::max<std::uint64_t>(1, steps_per_epoch);
  p.rounds = rounds_of(p.job, p.rounds_per_epoch);
  p.job.optimizer.total_steps = p.rounds;
  p.total_samples = 0;
  if (!nobody_waits(p.job.exchange)) return;
  for (const PeerEntry& peer : p.job.peers)
    p.total_samples += static_cast<double>(p.rounds) * static_cast<double>(peer.batch);
}

void check_exchanges(const Prepared& p) {
  const std::uint64_t steps = local_steps(p.job.exchange);
  if (p.job.peers.size() == 1 || steps <= p.rounds) return;
  throw ConfigError(
      fmt::format("{}: exchange.local_steps = {}{} is more than the run's rounds, {}: peers would never "
                  "exchange; expected at most {}, or a longer run (run.epochs, run.rounds)",
                  p.job.where("exchange.local_steps"), steps,
                  p.job.exchange.local_steps ? "" : " (the method's default)", p.rounds, p.rounds));
}

}  // namespace gossamer::node
