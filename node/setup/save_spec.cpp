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

}  // namespace gossamer::node
