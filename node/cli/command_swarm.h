#pragma once
// gossamer sim --seeds and --replay make many small runs in place of one.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "flags.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

struct SwarmFlags {
  std::optional<std::uint64_t> seeds, replay;
  std::uint64_t first_seed = 1;
  std::size_t events = 60;
  std::string plant;
  std::optional<double> churn;
  bool wanted() const { return seeds || replay; }
};

/// --seeds, --first-seed, --replay, --events, --churn; --plant in builds that bugs can be planted in.
void add_swarm_flags(CLI::App& command, SwarmFlags& flags);
/// job: whose faults are drawn anew; empty: every seed draws a job of its own. Returns the exit status: 1
/// where something that must hold did not. processes: that run seeds at a time.
int swarm(const SwarmFlags& flags, const JobFlags& output, const std::optional<Job>& job,
          std::size_t processes);

}  // namespace gossamer::node
