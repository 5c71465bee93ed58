#pragma once
// What exchanging the rows of tables goes with.
#include "exchange.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// Peers that have tables tell each other of their rows.
bool exchanges_rows(const Job& job);
/// Throws ConfigError where rows cannot be exchanged as the job says.
void check_rows(const Job& job);
RowPlan row_plan(const Job& job, const compress::RowsSpec& spec, const topology::Schedule& schedule);

}  // namespace gossamer::node
