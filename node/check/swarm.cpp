#include "swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gossamer::node {
namespace {

// Of virtual time and of events; in less a peer begins a round.
constexpr double kLongest_s = 3600, kLongestSteps = 1000;
constexpr std::uint64_t kMostEvents = 20'000'000;
constexpr std::uint64_t kEventsPerQuestion = 64;  ///< Simulation::run asks whether to stop

/// The job on a network and machines without faults, which a synchronous run must not differ from.
Job calm(Job job) {
  SimSection sim;
  sim.step_time = job.sim.step_time;
  sim.step_jitter = 0;
  job.sim = sim;
  job.links.clear();
  return job;
}

class OneRun {
 public:
  OneRun(const SwarmCase& c, Planted planted, Observer* next, const std::function<void()>& alive)
      : case_(c),
        alive_(alive),
        prepared_(prepared(c.job, planted)),
        planted_(planted),
        checkers_(prepared_, next) {}

  SwarmOutcome go() {
    out_.seed = case_.seed;
    Simulation simulation(prepared_, {case_.seed, case_.crashes}, &checkers_);
    try {
      result_ = simulation.run([&] { return stop(); });
      check_end(simulation);
    } catch (const std::exception& e) {
      checkers_.findings().report("stall", e.what());
    }
    out_.violation = checkers_.first();
    count();
    return std::move(out_);
  }

 private:
  static Prepared prepared(const Job& job, Planted planted) {
    Prepared p = prepare(job);
    p.planted = planted;
    return p;
  }

  bool stop() {
    alive_();
    ++asked_;
    if (begun_ != checkers_.round_begun()) {
      begun_ = checkers_.round_begun();
      asked_then_ = asked_;
    }
    const double waited = checkers_.time() - begun_;
    const std::uint64_t events = (asked_ - asked_then_) * kEventsPerQuestion;
    if (waited > kLongest_s + kLongestSteps * case_.job.sim.step_time || events > kMostEvents)
      checkers_.findings().report(
          "stall", fmt::format("nobody began a round for {:.0f} s of virtual time and {} events, and the run "
                               "has not ended",
                               waited, events));
    return checkers_.first().has_value();
  }

  bool crashed(PeerId p) const {
    return std::any_of(case_.crashes.begin(), case_.crashes.end(),
                       [&](const auto& c) { return c.first == p; });
  }
  bool failing(PeerId p) const {
    return std::find(case_.failing.begin(), case_.failing.end(), p) != case_.failing.end();
  }

  void check_end(const Simulation& simulation) {
    Outcome worst = Outcome::finished;
    for (PeerId p = 0; p < result_.peers.size(); ++p) {
      const WorkerResult& r = result_.peers[p];
      if (r.outcome != Outcome::running) worst = std::max(worst, r.outcome);
      if (!failing(p)) check_outcome(p, r);
    }
    out_.outcome = outcome_name(worst);
    out_.digest = fmt::format("{:016x}", result_.digest);
    checkers_.at_end(result_);
    const bool all = std::all_of(result_.peers.begin(), result_.peers.end(),
                                 [](const auto& r) { return r.outcome == Outcome::finished; });
    if (!all || checkers_.first()) return;
    const Invariants invariants = invariants_of(prepared_);
    if (invariants.all_alike) check_alike(simulation);
    if (invariants.synchronous() && case_.job.exchange.straggler == "wait" && !checkers_.first())
      check_reference();
  }

  void check_outcome(PeerId p, const WorkerResult& r) {
    if (r.outcome == Outcome::finished) return;
    if (r.outcome != Outcome::lost_peer || case_.failing.empty())
      return checkers_.findings().report("end", fmt::format("peer {} ends as {} in round {}: {}", p,
                                                            outcome_name(r.outcome), r.rounds, r.message));
    if (!names(r, case_.failing[0]) && !names_who_gave_up(r))
      checkers_.findings().report("end", fmt::format("peer {} does not name {}, which is gone: {}", p,
                                                     prepared_.job.peers[case_.failing[0]].name, r.message));
  }

  bool names(const WorkerResult& r, PeerId peer) const {
    return r.message.find(prepared_.job.peers[peer].name) != std::string::npos;
  }
  /// A peer that fails for good that stood still, and finds those gone who ended without it, tells so those
  /// who had not joined by then.
  bool names_who_gave_up(const WorkerResult& r) const {
    if (!case_.crashes.empty()) return false;
    for (PeerId p = 0; p < result_.peers.size(); ++p)
      if (result_.peers[p].outcome == Outcome::lost_peer && names(r, p)) return true;
    return false;
  }

  void check_alike(const Simulation& simulation) {
    const auto first = simulation.parameters(0);
    for (PeerId p = 1; p < result_.peers.size() && !first.empty(); ++p)
      if (std::memcmp(first.data(), simulation.parameters(p).data(), first.size_bytes()) != 0)
        return checkers_.findings().report(
            "alike", fmt::format("after a full reduce peer {} ends with other parameters than peer 0", p));
  }

  void check_reference() {
    Prepared reference = prepared(calm(case_.job), planted_);
    // The way of a dense all-reduce follows the links' speeds, and its sums another order on each.
    Plan plan = *reference.plan;
    plan.allreduce = prepared_.plan->allreduce;
    reference.plan = std::make_shared<const Plan>(std::move(plan));
    Simulation simulation(reference, {1, {}});
    std::uint64_t left = std::max(asked_, kMostEvents / kEventsPerQuestion);
    const SimResult calm = simulation.run([&] {
      alive_();
      return left-- == 0;
    });
    ++out_.counts["compared with a calm network"];
    if (calm.digest != result_.digest)
      checkers_.findings().report(
          "reference", fmt::format("a synchronous run ends with digest {:016x}; the same job on a calm "
                                   "network with {:016x}",
                                   result_.digest, calm.digest));
  }

  void count() {
    Counts& c = out_.counts;
    const auto frames = [&](const char* name, Fate fate) { c[name] += checkers_.frames(fate); };
    frames("frames sent", Fate::sent);
    frames("frames lost", Fate::lost);
    frames("frames cut off", Fate::cut);
    frames("frames held by clogs", Fate::held);
    frames("frames copied", Fate::copied);
    frames("strays of earlier starts", Fate::stray);
    frames("frames forged", Fate::forged);
    frames("frames garbled", Fate::garbled);
    frames("frames in another's name", Fate::posed);
    frames("frames to peers that had gone", Fate::late);
    c["messages"] += checkers_.messages();
    c["encodes skipped"] += checkers_.skipped_encodes();
    c["requests declined"] += checkers_.declined();
    for (const WorkerResult& r : result_.peers) {
      c["frames resent"] += r.traffic.resent;
      c["duplicates dropped"] += r.traffic.duplicates;
      c["frames reordered"] += r.traffic.reordered;
      c["chunks refused"] += r.traffic.refused();
      c["frames refused"] += r.dropped_frames;
      c["rounds"] += r.rounds;
      c["messages left out"] += r.left_out;
    }
    if (std::any_of(result_.peers.begin(), result_.peers.end(),
                    [](const auto& r) { return r.staleness_max > 0; }))
      ++c["runs with stale mixes"];
    if (checkers_.chunked()) ++c["runs with chunked payloads"];
    if (!case_.crashes.empty()) ++c["runs with a crash"];
    if (!case_.job.sim.pause.empty()) ++c["runs with a pause"];
    const ExchangeSettings& e = case_.job.exchange;
    if (e.delivery == "best_effort") ++c["runs at best effort"];
    if (e.backup > 0) ++c["runs with a backup"];
    for (const WorkerResult& r : result_.peers) {
      c["rounds closed without some"] += r.closed_without;
      c["idle steps"] += r.idle_steps;
    }
    if (e.outer_delay > 0) ++c["runs with an outer delay"];
    if (prepared_.plan->rule != RuleScope::none) ++c["runs with a rule"];
    if (case_.job.heterogeneous()) ++c["runs of different models"];
    ++c["method " + case_.job.exchange.method];
    ++c["graph " + case_.job.graph.kind];
    ++c["codec " + case_.job.exchange.codec.substr(0, case_.job.exchange.codec.find(':'))];
  }

  const SwarmCase& case_;
  const std::function<void()>& alive_;
  Prepared prepared_;
  Planted planted_;
  Checkers checkers_;
  SimResult result_;
  SwarmOutcome out_;
  std::uint64_t asked_ = 0, asked_then_ = 0;  ///< now, and when a round began last
  double begun_ = 0;                          ///< then
};

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::running:
      return "running";
    case Outcome::finished:
      return "finished";
    case Outcome::lost_peer:
      return "lost_peer";
    case Outcome::stalled:
      return "stalled";
    case Outcome::bad_input:
      return "bad_input";
    case Outcome::failed:
      return "failed";
    case Outcome::interrupted:
      return "interrupted";
  }
  return "";
}

SwarmOutcome run_case(const SwarmCase& c, Planted planted, Observer* next,
                      const std::function<void()>& alive) {
  return c.churn ? run_churn(c, planted, next, alive) : OneRun(c, planted, next, alive).go();
}

}  // namespace gossamer::node
