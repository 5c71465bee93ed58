#pragma once
// Many small simulated runs, each with a configuration and faults of its own drawn from one number, and
// everything checked that must hold in all of them.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkers.h"
#include "event_log.h"
#include "gossamer/node/job.h"
#include "planted.h"
#include "simulation.h"

namespace gossamer::node {

/// One run of a swarm: a job whose [sim] holds the faults, and what is to be expected of it.
struct SwarmCase {
  std::uint64_t seed = 0;  ///< drawn from; also of the network
  Job job;
  std::vector<std::pair<PeerId, double>> crashes;
  /// Peers that crash or are silent for too long: the run may then end with status lost_peer. Empty: it must
  /// not.
  std::vector<PeerId> failing;

  // where members come and go
  bool churn = false;
  bool breaks = false;    ///< SimFaults::breaks
  double last_fault = 0;  ///< virtual time from which all that are there reach each other
  double longest = 0;     ///< virtual time after which the run is looked at no more
};
/// A sound configuration and faults. The same case for a seed always.
SwarmCase draw_case(std::uint64_t seed);
/// The job as it is, with faults drawn in place of its own.
SwarmCase draw_case(std::uint64_t seed, const Job& job);
/// A run of about so many seconds of virtual time, in the first half of which members crash, come back, are
/// cut off, stand still …; job: in place of a drawn one, with its own length.
SwarmCase draw_churn(std::uint64_t seed, double seconds, const Job* job = nullptr);
/// "peer1@0.5s" of each crash, as `gossamer sim --crash` takes it.
std::vector<std::string> crash_texts(const SwarmCase& c);
/// One line: method, codec, graph, peers, staleness, faults.
std::string describe(const SwarmCase& c);

using Counts = std::map<std::string, std::uint64_t>;

struct SwarmOutcome {
  std::uint64_t seed = 0;
  std::string outcome;  ///< finished, lost_peer …: the worst of the peers'
  std::string digest;   ///< 16 hexadecimal digits
  std::optional<Violation> violation;
  Counts counts;  ///< of what happened
};
/// Runs the case, and where it is synchronous and finished the same job on a calm network, which must end
/// with the same bits. next: hears all that happens up to the first violation. alive: called every few
/// events.
SwarmOutcome run_case(
    const SwarmCase& c, Planted planted = {}, Observer* next = nullptr,
    const std::function<void()>& alive = [] {});
/// Of a case whose members come and go.
SwarmOutcome run_churn(const SwarmCase& c, Planted planted, Observer* next,
                       const std::function<void()>& alive);
/// As outcomes name it.
const char* outcome_name(Outcome outcome);

struct Swarm {
  std::uint64_t first = 1, count = 1000;
  std::size_t processes = 1;
  std::function<SwarmCase(std::uint64_t)> draw;
  Planted planted{};
  double patience_s = 120;  ///< of CPU time (wall time ×10) without an event, then a seed counts as hanging
};
/// Runs the seeds in processes of their own, so that a failed assertion is a violation like another.
/// on_outcome hears of each as it ends, in no fixed order; false ends the swarm.
void run_swarm(const Swarm& swarm, const std::function<bool(const SwarmOutcome&)>& on_outcome);

}  // namespace gossamer::node
