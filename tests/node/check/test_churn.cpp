// Small runs whose members come and go, as drawn, everything checked; and that the checkers see what they
// should.
#include <algorithm>

#include "churn_checkers.h"
#include "event_log.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "swarm.h"

using namespace gossamer::node;

namespace {

constexpr double kSeconds = 15;

}  // namespace

TEST_CASE("thirty seeds in which members come and go keep every rule") {
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const SwarmCase c = draw_churn(seed, kSeconds);
    const SwarmOutcome o = run_case(c);
    INFO("seed " << seed << ": " << describe(c));
    if (o.violation) FAIL(o.violation->checker << " at " << o.violation->time << " s: " << o.violation->what);
    for (const auto& [name, n] : o.counts) counts[name] += n;
  }
  for (const char* branch : {"frames lost", "frames cut off", "frames held by clogs", "frames copied",
                             "frames garbled", "strays of earlier starts", "frames in another's name",
                             "processes that crashed", "processes that began again", "views begun",
                             "states fetched", "runs that converged", "runs with skewed clocks"}) {
    INFO(branch);
    CHECK(counts[branch] > 0);
  }
}

TEST_CASE("seeds that broke a rule once keep it") {
  const std::vector<std::pair<std::uint64_t, double>> seeds{
      {2, 20},      // a hello of the first view ended one that began
      {20, 20},     // a hello of a view ended a process that began again
      {48, 20},     // models of sizes of their own: another's state was taken
      {86, 20},     // a view that was announced and left began twice under one number
      {3415, 20},   // one that had left its view, and ended, counted as a side that goes on
      {79, 120},    // views that others' faults ended counted as failed attempts at one
      {790, 120},   // mass of one that had ended apart was taken for what may come back
      {1324, 120},  // of little weight, entries' shares were told by a weight that rounding had moved more
      {1696, 120},  // who began a view late was told that others had learned something, in that view
  };
  for (const auto& [seed, seconds] : seeds) {
    const SwarmOutcome o = run_case(draw_churn(seed, seconds));
    INFO("seed " << seed << " of " << seconds << " s");
    if (o.violation) FAIL(o.violation->checker << " at " << o.violation->time << " s: " << o.violation->what);
  }
}

TEST_CASE("a seed in which members come and go is the same run always") {
  for (const std::uint64_t seed : {3U, 4U}) {
    const SwarmCase c = draw_churn(seed, kSeconds);
    CHECK(to_toml(draw_churn(seed, kSeconds).job) == to_toml(c.job));
    EventLog first(c.job.peer_names(), 1000), second(c.job.peer_names(), 1000);
    const SwarmOutcome a = run_case(c, {}, &first), b = run_case(c, {}, &second);
    CHECK(a.digest == b.digest);
    CHECK(a.counts == b.counts);
    CHECK(first.lines() == second.lines());
  }
}

TEST_CASE("a job's members come and go by themselves where it says so") {
  const Job job = test::small_job(
      {"peers=5", "graph.kind=full", "exchange.method=dpsgd", "exchange.codec=dense", "run.rounds=800",
       "run.min_peers=1", "sim.crash=[\"peer1@1s+500ms\", \"peer3@1.2s+1s\"]", "sim.clock_skew=0.05"});
  const Prepared prepared = prepare(job);
  ChurnCheckers checkers(prepared);
  SimFaults faults;
  faults.views = faults.breaks = true;
  faults.view_observer = &checkers;
  Simulation simulation(prepared, faults, &checkers);
  const SimResult result = simulation.run();
  if (checkers.first()) FAIL(checkers.first()->what);
  CHECK(checkers.counts().crashes == 2);
  CHECK(checkers.counts().starts == 7);
  CHECK(checkers.counts().fetched >= 2);
  for (const WorkerResult& r : result.peers) {
    INFO(r.message);
    CHECK(r.outcome == Outcome::finished);
  }
}

TEST_CASE("checkers see what breaks a rule of views") {
  const Prepared prepared =
      prepare(test::small_job({"exchange.method=dpsgd", "exchange.codec=dense", "run.min_peers=2"}));
  const auto seats = [](std::vector<Seat> s, std::uint64_t attempt = 0) {
    return View{std::move(s), attempt};
  };
  const View three = seats({{"peer0", 1}, {"peer1", 2}, {"peer2", 3}});
  const std::vector<float> x(prepared.initial.begin(), prepared.initial.end());
  std::vector<float> other = x;
  other[0] += 1;
  const auto found = [&](auto&& happens) {
    ChurnCheckers checkers(prepared);
    for (PeerId p = 0; p < 4; ++p) checkers.on_start(p, p + 1);
    happens(checkers);
    return checkers.first() ? checkers.first()->checker : std::string("nothing");
  };
  const auto enter = [&](ChurnCheckers& c, PeerId p, const View& view, double share = 0.5) {
    c.on_enter(p, {view, share, prepared, 0});
  };
  CHECK(found([&](ChurnCheckers& c) { enter(c, 0, three), enter(c, 1, three); }) == "nothing");
  CHECK(found([&](ChurnCheckers& c) { enter(c, 0, three), enter(c, 0, three); }) == "views");
  CHECK(found([&](ChurnCheckers& c) { enter(c, 0, three), enter(c, 1, three, 0.4); }) == "views");
  CHECK(found([&](ChurnCheckers& c) { enter(c, 3, three); }) == "views");
  CHECK(found([&](ChurnCheckers& c) { c.on_start(0, 9), enter(c, 0, three); }) == "views");
  CHECK(found([&](ChurnCheckers& c) { enter(c, 0, seats({{"peer0", 1}})); }) == "views");
  const auto leave = [&](ChurnCheckers& c, PeerId p, const std::vector<float>& with) {
    enter(c, p, three), c.on_begin(p, x), c.on_leave(p, 0.7, with);
  };
  const View next = seats({{"peer0", 1}, {"peer1", 2}});
  CHECK(found([&](ChurnCheckers& c) { leave(c, 0, other), enter(c, 0, next, 0.6); }) == "views");
  CHECK(found([&](ChurnCheckers& c) { leave(c, 0, other), enter(c, 0, next, 0.7), c.on_begin(0, other); }) ==
        "nothing");
  CHECK(found([&](ChurnCheckers& c) { leave(c, 0, other), enter(c, 0, next, 0.7), c.on_begin(0, x); }) ==
        "state");
  CHECK(found([&](ChurnCheckers& c) { leave(c, 0, other), enter(c, 1, next, 0.7), c.on_begin(1, other); }) ==
        "nothing");
  CHECK(found([&](ChurnCheckers& c) { leave(c, 0, other), enter(c, 1, next, 0.7), c.on_begin(1, x); }) ==
        "state");
}
