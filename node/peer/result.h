#pragma once
// result_of makes of a worker's result what a program is told.
#include "gossamer/node/peer.h"
#include "worker.h"

namespace gossamer::node {

inline PeerResult result_of(const WorkerResult& w) {
  return {.outcome = w.outcome,
          .message = w.message,
          .rounds = w.rounds,
          .rows = w.rows,
          .train_loss = w.train_loss,
          .seconds = w.seconds,
          .bytes_out = w.traffic.bytes_out,
          .bytes_in = w.traffic.bytes_in,
          .staleness_mean = w.staleness_mean,
          .staleness_max = w.staleness_max,
          .skipped_steps = w.skipped_steps,
          .muted = w.muted};
}

}  // namespace gossamer::node
