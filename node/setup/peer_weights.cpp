#include "peer_weights.h"

#include <fmt/format.h>

namespace gossamer::node {

double peer_weight(const Job& job, const PeerEntry& peer) {
  if (job.exchange.aggregate != "throughput") return static_cast<double>(peer.batch);
  if (peer.throughput) return *peer.throughput;
  throw ConfigError(
      fmt::format("{}: exchange.aggregate = 'throughput', and peer '{}' states none; expected throughput = "
                  "(samples/s) in every [[peer]] table: gossamer run and metrics.jsonl say what each reaches",
                  job.path, peer.name));
}

}  // namespace gossamer::node
