#pragma once
// run_peers is what `gossamer run` does once it knows that it can: all peers of a job on this machine, one
// process each.
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "gossamer/node/job.h"
#include "resume.h"

namespace gossamer::node {

struct RunFlags {
  JobFlags job;
  std::string out;     ///< folder of the run's files; empty = a new one below runs/
  std::string resume;  ///< a run's folder, from which this one goes on
  std::string trace;   ///< file; empty: none
  bool own_models = false;
  std::vector<std::string> program{};  ///< that is started as each peer, with its arguments; none: this one
};

/// The exit status. from: what the run goes on from, which outlives the call.
int run_peers(const RunFlags& flags, Job job, const std::optional<Resumption>& from);

}  // namespace gossamer::node
