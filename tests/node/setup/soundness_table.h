#pragma once
// soundness.toml: which combinations must be accepted and converge, and which must be refused.
#include <cstdint>
#include <string>
#include <vector>

#include "sim_job.h"

namespace gossamer::node::test {

struct Combination {
  bool sound = true;
  std::string method, graph, codec, staleness;
  Settings settings;    ///< further keys of the job
  bool falling = true;  ///< the rate, to 0
  double within = 0;    ///< sound: what distance_to_optimum must not exceed
  std::string because;  ///< unsound: words of the refusal

  std::string name() const;
};

/// Every combination that the file's entries stand for. Throws std::runtime_error where the file is wrong.
std::vector<Combination> read_combinations();

/// The combination as a job: 8 peers learn the mean of rows that lie apart from peer to peer. Throws
/// ConfigError where the program refuses it.
Prepared prepare_combination(const Combination& c, std::uint64_t seed);
/// What the program says to it; empty where it accepts.
std::string refusal(const Combination& c);

/// The farthest peer's distance to the optimum at the end of a simulated run, as a share of the distance at
/// its start; infinite where it did not end as it should.
double distance_to_optimum(const Combination& c, std::uint64_t seed);

}  // namespace gossamer::node::test
