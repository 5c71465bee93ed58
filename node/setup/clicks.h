#pragma once
// What a job says of models of sparse samples becomes an objective: streams, table and model.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/compress/rows.h"
#include "gossamer/node/job.h"
#include "gossamer/optim/click_objective.h"

namespace gossamer::node {

/// The job's training samples, as far as anyone knows.
struct ClickData {
  std::uint64_t steps_per_epoch = 1, hash = 0;
  std::uint64_t samples = 0;  ///< 0: nobody has counted them
  std::shared_ptr<optim::SampleHead> head = std::make_shared<optim::SampleHead>();  ///< of all streams
  std::vector<std::string> homes{};  ///< names of the peers that they were dealt to at first; empty: these
};
/// table.initial, where model.initial names a run and it stands empty: the rows that go with its parameters.
/// Throws ConfigError where there are none.
void find_initial_rows(Job& job);
/// Reads files once, and the first test sample. Throws ConfigError, OptimError.
ClickData survey(const Job& job);
/// The same samples among the peers of another job, some of which they were dealt to at first.
ClickData dealt_anew(ClickData data, const Job& job, const std::vector<optim::RowHome>& homes);

/// What a peer's objective is made of. threads: that read ahead. course: as of make_objective.
optim::ClickParts click_parts(const Job& job, const ClickData& data, std::size_t peer, std::size_t threads,
                              std::shared_ptr<optim::DataCourse> course = {});

/// How rows of that table are exchanged; throws ConfigError.
compress::RowsSpec rows_of(const Job& job, const optim::TableSpec& table);

}  // namespace gossamer::node
