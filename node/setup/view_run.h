#pragma once
// A view is those of a job's peers that are there at a time; each has a run of its own.
#include <memory>
#include <string>
#include <vector>

#include "setup.h"

namespace gossamer::node {

struct ViewRun {
  std::shared_ptr<const Prepared> prepared;
  std::string warning;  ///< empty, or what users should know: "the graph falls apart into {a, b} and {c} …"
};

/// What the run of `base` is for these of its peers: job, graph, weights, split, plan, rounds and hello of
/// their number (view_graph.h says which graph). Data, layers and initial parameters are shared. Rows and
/// samples of peers that are not there go to the others by rendezvous, or to nobody (data.private).
///
/// members: names of base's peers, ascending by their place there, then those of others, ascending: peers
/// that base's files do not name have what the job says of all, and their learner is asked for base's next
/// number. At least one. diallers: those of the others that can only dial out. keyframes: where the method
/// reads exchange.dense_rounds, at least the first round goes dense, so that estimates that begin at x⁰ find
/// parameters that have moved on. A backup that some peer has too few neighbours for is lowered.
///
/// A learner is asked by base's numbers; steps per epoch stay what it said. Throws ConfigError for members
/// in another order, or where method or aggregation rule cannot go on with them.
ViewRun run_of_view(const Prepared& base, const std::vector<std::string>& members, bool keyframes = true,
                    const std::vector<std::string>& diallers = {});

/// The same where of each of these pairs the first owes the second something (Plan::former); pairs that the
/// graph links anyway are left out.
std::shared_ptr<const Prepared> with_former(std::shared_ptr<const Prepared> view,
                                            std::vector<std::pair<PeerId, PeerId>> former);

/// Why nobody can join that the job does not name; empty: others can.
std::string why_only_named(const Job& base);

}  // namespace gossamer::node
