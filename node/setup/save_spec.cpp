#include "row_soundness.h"
#include "setup.h"
#include "text.h"

namespace gossamer::node {

SaveSpec save_spec(const Job& job) {
  const SaveInterval every = parse_save_interval(job.run.checkpoint_every);
  // rows are handed on, and where peers may be apart nobody knows that none is under way any more
  const bool rows_apart = job.learns_by_key() && exchanges_rows(job) && job.exchange.staleness != 0u;
  return {every.rounds, every.seconds, job.exchange.staleness && !closes_early(job.exchange) && !rows_apart};
}

void set_saves(WorkerSpec& spec, const Job& job, bool keeps, bool leaves) {
  spec.saves = save_spec(job);
  if (!keeps) spec.saves.every_rounds = 0, spec.saves.every_s = 0;
  spec.saves.leave = leaves;
  spec.grace_s = job.run.grace;
}

}  // namespace gossamer::node
