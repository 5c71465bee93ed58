// All peers of a job in virtual time, for programs.
#include "simulation.h"

#include "gossamer/node/peer.h"
#include "result.h"
#include "setup.h"
#include "translate.h"

namespace gossamer::node {

SimulationResult simulate(Job job, Learner learner, SimulationOptions options) {
  return translated([&] {
    const Prepared prepared = prepare(std::move(job), passed_through(std::move(learner)));
    Simulation simulation(prepared, {.seed = options.seed, .crashes = {}}, nullptr, options.threads);
    if (options.on_report)
      simulation.on_report = [&](PeerId p, double time, const Report& r) { options.on_report(p, time, r); };
    const SimResult run = simulation.run([&] { return options.stop.stop_requested(); });
    SimulationResult result{{}, {}, run.virtual_seconds, run.digest};
    for (PeerId p = 0; p < run.peers.size(); ++p) {
      result.peers.push_back(result_of(run.peers[p]));
      const auto x = simulation.parameters(p);
      result.parameters.emplace_back(x.begin(), x.end());
    }
    return result;
  });
}

}  // namespace gossamer::node
