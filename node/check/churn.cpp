// A run of a swarm in which members come and go.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "churn_checkers.h"
#include "swarm.h"

namespace gossamer::node {
namespace {

/// After the last fault: a suspicion, its refutation, and beginnings of views that failed.
constexpr double kConverges_s = 12;
/// Longer than any round takes, and than a peer waits for others that have ended.
constexpr double kPatience_s = 150;
/// Many times what a moment of a busy swarm has.
constexpr std::uint64_t kMostEvents = 1'000'000;
constexpr double kMoment_s = 1e-3;

class ChurnRun {
 public:
  ChurnRun(const SwarmCase& c, Planted planted, Observer* next, const std::function<void()>& alive)
      : case_(c), alive_(alive), prepared_(prepared(c.job, planted)), checkers_(prepared_, next) {}

  SwarmOutcome go() {
    out_.seed = case_.seed;
    SimFaults faults{.seed = case_.seed, .crashes = case_.crashes};
    faults.views = true;
    faults.breaks = case_.breaks;
    faults.view_observer = &checkers_;
    try {
      Simulation simulation(prepared_, faults, &checkers_);
      checkers_.has_ended = [&](PeerId p) { return simulation.standpoint(p).finished; };
      result_ = simulation.run([&] { return stop(simulation); });
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

  bool stop(const Simulation& simulation) {
    alive_();
    const double now = checkers_.time();
    if (now > moment_ + kMoment_s) moment_ = now, events_ = 0;
    if (++events_ > kMostEvents)
      checkers_.findings().report("stall", fmt::format("{} events in {:g} s: some peer wakes without an end",
                                                       kMostEvents, kMoment_s));
    if (now > std::max(case_.last_fault, checkers_.progressed()) + kPatience_s)
      checkers_.findings().report(
          "stall", fmt::format("no round begins in {:.0f} s: {}", kPatience_s, standing(simulation)));
    cut_short_ = now > case_.longest;  // a slow network's rounds may take long
    if (!converged_ && now > case_.last_fault) check_convergence(simulation, now);
    return cut_short_ || checkers_.first().has_value();
  }

  /// That all who are there train in one view, which holds nobody else; not where some have ended.
  void check_convergence(const Simulation& simulation, double now) {
    const View* view = nullptr;
    std::vector<Seat> there;
    bool same = true;
    for (PeerId p = 0; p < prepared_.job.peers.size(); ++p) {
      const Simulation::Standpoint s = simulation.standpoint(p);
      if (s.crashed) continue;
      if (s.finished) return void(converged_ = true);
      there.push_back({prepared_.job.peers[p].name, s.start});
      same &= s.view && (!view || (s.view->id() == view->id() && s.view->attempt == view->attempt));
      if (s.view) view = s.view;
    }
    const auto starts_known = [&] {
      return std::all_of(view->seats.begin(), view->seats.end(), [](const Seat& s) { return s.start != 0; });
    };
    converged_ = same && view && starts_known() && view->seats == there;
    if (converged_) took_ = now - case_.last_fault;
    if (!converged_ && now > case_.last_fault + kConverges_s + prepared_.job.run.partition_timeout)
      checkers_.findings().report("convergence", fmt::format("{:.1f} s after the last fault: {}",
                                                             now - case_.last_fault, standing(simulation)));
  }

  std::string standing(const Simulation& simulation) const {
    std::vector<std::string> lines;
    for (PeerId p = 0; p < prepared_.job.peers.size(); ++p) {
      const Simulation::Standpoint s = simulation.standpoint(p);
      lines.push_back(fmt::format("{} {}", prepared_.job.peers[p].name,
                                  s.crashed    ? "is gone"
                                  : s.finished ? "has ended"
                                  : s.view     ? fmt::format("trains with {} in attempt {}",
                                                             fmt::join(s.view->names(), " "), s.view->attempt)
                                               : "waits"));
    }
    return fmt::format("{}", fmt::join(lines, "; "));
  }

  /// Of graph, method or rule, which want more peers.
  static bool cannot_go_on(const std::string& message) {
    return message.find("cannot go on by themselves") != std::string::npos;
  }

  /// Its side of the network has no majority, and the job has that end the run.
  bool is_cut_off(const WorkerResult& r) const {
    return prepared_.job.run.on_partition != "continue" && r.message.starts_with("cut off from");
  }

  /// It was started again, and found nobody: the others had trained to the end, or had ended apart.
  bool came_too_late(const WorkerResult& r) const {
    return r.outcome == Outcome::lost_peer && r.rounds == 0 &&
           std::any_of(result_.peers.begin(), result_.peers.end(), [&](const WorkerResult& other) {
             return (other.outcome == Outcome::finished && other.rounds > 0) || is_cut_off(other);
           });
  }

  void check_end(const Simulation& simulation) {
    if (checkers_.first() || cut_short_) return;
    Outcome worst = Outcome::finished;
    for (PeerId p = 0; p < result_.peers.size(); ++p) {
      if (simulation.standpoint(p).crashed) continue;
      const WorkerResult& r = result_.peers[p];
      worst = std::max(worst, r.outcome);
      const bool too_few = r.outcome == Outcome::lost_peer &&
                           (prepared_.job.least_peers() > 1 || cannot_go_on(r.message) || is_cut_off(r));
      if (r.outcome != Outcome::finished && !too_few && !came_too_late(r))
        checkers_.findings().report("end",
                                    fmt::format("{} ends as {} in round {}: {}", prepared_.job.peers[p].name,
                                                outcome_name(r.outcome), r.rounds, r.message));
    }
    out_.outcome = outcome_name(worst);
    out_.digest = fmt::format("{:016x}", result_.digest);
  }

  void count() {
    Counts& c = out_.counts;
    const ChurnCheckers::Counts& n = checkers_.counts();
    const auto frames = [&](const char* name, Fate fate) {
      c[name] += n.frames[static_cast<std::size_t>(fate)];
    };
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
    c["messages"] += n.messages;
    c["processes that crashed"] += n.crashes;
    c["processes that began again"] += n.starts - prepared_.job.peers.size();
    c["views entered"] += n.views - n.starts;
    c["views begun"] += n.begun;
    c["states fetched"] += n.fetched;
    if (const MassLedger* ledger = checkers_.ledger()) {
      c["pairs whose mass outlived a view"] += ledger->counts().carried;
      c["pairs whose mass waited for a link"] += ledger->counts().aside;
      c["links to tell what was owed"] += ledger->counts().owed;
      c["pairs written off"] += ledger->counts().written_off;
    }
    const SimSection& sim = case_.job.sim;
    if (!sim.cut.empty()) ++c["runs with a cut"];
    if (!sim.pause.empty()) ++c["runs with a pause"];
    if (checkers_.merged() > 0) ++c["runs in which sides' models came together"];
    if (sim.clock_skew > 0) ++c["runs with skewed clocks"];
    if (cut_short_) ++c["runs cut short"];
    if (took_ > 0) ++c["runs that converged"];
    for (const WorkerResult& r : result_.peers)
      c["frames resent"] += r.traffic.resent, c["rounds"] += r.rounds;
    ++c["method " + case_.job.exchange.method];
  }

  const SwarmCase& case_;
  const std::function<void()>& alive_;
  Prepared prepared_;
  ChurnCheckers checkers_;
  bool converged_ = false, cut_short_ = false;
  double took_ = 0;
  double moment_ = 0;
  std::uint64_t events_ = 0;  ///< since then
  SimResult result_;
  SwarmOutcome out_;
};

}  // namespace

SwarmOutcome run_churn(const SwarmCase& c, Planted planted, Observer* next,
                       const std::function<void()>& alive) {
  return ChurnRun(c, planted, next, alive).go();
}

}  // namespace gossamer::node
