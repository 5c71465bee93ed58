// Who trains which rows in runs whose peers come and go, in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "checkers.h"
#include "courses.h"
#include "gossamer/optim/click_objective.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "view_run.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

/// Holds the rows to their rule, and counts.
struct Rows final : Observer {
  explicit Rows(const Prepared& prepared) : checker(check_trained(prepared, findings)) {}
  void on_time(double time) override { findings.time = time; }
  void on_crash(PeerId p) override { checker->on_crash(p); }
  void on_view(PeerId p, const std::vector<std::string>& members, Round before) override {
    ++views;
    checker->on_view(p, members, before);
  }
  void on_rows(PeerId p, std::span<const std::uint32_t> rows) override {
    for (const std::uint32_t row : rows) ++trained[row];
    checker->on_rows(p, rows);
  }

  Findings findings;
  std::unique_ptr<Checker> checker;
  std::map<std::uint32_t, std::size_t> trained;
  std::size_t views = 0;
};

struct Drawn {
  std::string method, split;
  SimFaults faults;
};
constexpr const char* kMethods[] = {"choco", "dpsgd", "allreduce", "push_sum", "noloco"};
constexpr const char* kSplits[] = {"local_shuffle", "global_shuffle"};

/// Two or three of six peers die, most come back.
Drawn draw(std::uint64_t seed) {
  std::mt19937_64 random(seed * 2 + 1);
  Drawn d{kMethods[random() % std::size(kMethods)], kSplits[random() % std::size(kSplits)], {}};
  d.faults.views = true;
  d.faults.seed = seed;
  std::set<PeerId> chosen;
  while (chosen.size() < 2 + random() % 2) chosen.insert(static_cast<PeerId>(random() % 6));
  for (const PeerId p : chosen) {
    const double at = 0.3 + static_cast<double>(random() % 2500) / 1000;
    d.faults.crashes.emplace_back(p, at);
    if (random() % 4 != 0)
      d.faults.restarts.emplace_back(p, at + 0.4 + static_cast<double>(random() % 2000) / 1000);
  }
  return d;
}

struct Storm {
  explicit Storm(std::uint64_t seed, Bug bug = Bug::none, const Settings& more = {}) {
    const Drawn d = draw(seed);
    Prepared prepared = prepare(
        small_job(Settings{"exchange.method=" + d.method, "exchange.codec=dense", "peers=6", "run.rounds=500",
                           "run.min_peers=1", "graph.kind=full", "data.split=" + d.split,
                           seed % 3 == 0 ? "exchange.staleness=0" : "optimizer.batch=8"} +
                  more));
    prepared.planted = bug;
    Rows rows(prepared);
    Simulation simulation(prepared, d.faults, &rows);
    const SimResult result = simulation.run();
    finished =
        static_cast<std::size_t>(std::count_if(result.peers.begin(), result.peers.end(),
                                               [](const auto& r) { return r.outcome == Outcome::finished; }));
    for (PeerId p = 0; p < 6; ++p) messages += result.peers[p].message + "; ";
    views = rows.views;
    missed = prepared.data.train->rows() - rows.trained.size();
    if (const auto& first = rows.findings.first()) found = first->what;
  }
  std::size_t finished = 0, views = 0, missed = 0;
  std::string found, messages;
};

/// Label skew, and all of them; by peer, how often each row was trained.
std::map<PeerId, std::map<std::uint32_t, std::size_t>> trained_by(const Settings& settings, SimFaults faults,
                                                                  SimResult* end = nullptr) {
  struct Counts final : Observer {
    void on_rows(PeerId p, std::span<const std::uint32_t> rows) override {
      for (const std::uint32_t row : rows) ++of[p][row];
    }
    std::map<PeerId, std::map<std::uint32_t, std::size_t>> of;
  } counts;
  const Prepared prepared = prepare(small_job(Settings{"exchange.method=dpsgd", "exchange.codec=dense",
                                                       "peers=6", "run.min_peers=1", "graph.kind=full"} +
                                              settings));
  faults.views = true;
  Simulation simulation(prepared, faults, &counts);
  const SimResult result = simulation.run();
  if (end) *end = result;
  return counts.of;
}

}  // namespace

TEST_CASE("rows are trained once in a pass while peers come and go") {
  std::size_t views = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Storm storm(seed);
    INFO("seed " << seed << ": " << storm.messages);
    CHECK(storm.found == "");
    CHECK(storm.finished >= 3);
    CHECK(storm.missed == 0);
    views += storm.views;
  }
  CHECK(views > 60 * 8);
}

TEST_CASE("a row that is trained twice in a pass, by one peer or by two, breaks the rule") {
  // 512 rows, 4 peers of 8: 16 steps are a pass of 128 rows
  const Prepared prepared = prepare(small_job({"run.min_peers=1"}));
  const auto found = [&](const auto& tell) {
    Findings findings;
    const auto checker = check_trained(prepared, findings);
    const auto rows = [&](PeerId p, std::uint32_t first, std::uint32_t end) {
      for (std::uint32_t r = first; r < end; ++r) checker->on_rows(p, std::span(&r, 1));
    };
    tell(*checker, rows);
    return findings.first() ? findings.first()->what : "";
  };
  using gossamer::test::says;
  const std::vector<std::string> three{"peer0", "peer1", "peer3"};
  CHECK(found([](Checker&, const auto& rows) { rows(0, 0, 128), rows(0, 0, 128), rows(1, 128, 256); }) == "");
  CHECK(says(found([](Checker&, const auto& rows) { rows(0, 0, 100), rows(0, 99, 100); }), "row 99"));
  CHECK(says(found([](Checker&, const auto& rows) { rows(0, 0, 100), rows(1, 99, 150); }), "by peer1"));
  // The pass goes on in another view; the next one is of 21 steps.
  CHECK(found([&](Checker& c, const auto& rows) {
          rows(0, 0, 100);
          c.on_view(0, three, 13);
          rows(0, 100, 128), rows(0, 0, 168), rows(0, 0, 10);
        }) == "");
  CHECK(says(found([&](Checker& c, const auto& rows) {
               rows(0, 0, 100);
               c.on_view(0, three, 13);
               rows(0, 90, 91);
             }),
             "row 90"));
  // Who comes back has forgotten what it had trained.
  CHECK(found([&](Checker& c, const auto& rows) {
          rows(0, 0, 100);
          c.on_crash(0);
          c.on_view(0, three, 13);
          rows(0, 90, 100);
        }) == "");
  CHECK(check_trained(prepare(small_job({"data.split=with_replacement"})), *std::make_unique<Findings>()) ==
        nullptr);
}

TEST_CASE("planted faults of who trains which rows are found") {
  if (!kPlantable) return;
  for (const Bug bug : kRowBugs) {
    bool found = false;
    for (std::uint64_t seed = 0; seed < 60 && !found; ++seed) found = !Storm(seed, bug).found.empty();
    CAPTURE(static_cast<int>(bug));
    CHECK(found);
  }
}

TEST_CASE("the rows of a lost peer are trained by the others, unless they are private") {
  for (const char* split : {"local_shuffle", "dirichlet:0.3"})
    for (const bool kept : {false, true}) {
      INFO(split << (kept ? ", private" : ""));
      const Settings settings{"run.rounds=400", std::string("data.split=") + split,
                              std::string("data.private=") + (kept ? "true" : "false")};
      const auto calm = trained_by(settings, {});
      SimResult end;
      const auto lost = trained_by(settings, {.crashes = {{2, 1.0}}}, &end);
      std::set<std::uint32_t> before, after;
      for (const auto& [row, times] : calm.at(2)) before.insert(row);
      for (const auto& [p, rows] : lost) {
        if (p == 2) continue;
        for (const auto& [row, times] : rows) after.insert(row);
        for (const auto& [row, times] : calm.at(p)) CHECK(rows.contains(row));
        CHECK(end.peers[p].outcome == Outcome::finished);
      }
      std::size_t trained = 0;
      for (const std::uint32_t row : before) trained += after.contains(row);
      CHECK(trained == (kept ? 0 : before.size()));
    }
}

TEST_CASE("a run over private rows is as long as the rows that are there") {
  const Prepared base = prepare(small_job({"peers=6", "data.private=true", "run.rounds=0", "run.epochs=3"}));
  const ViewRun view = run_of_view(base, {"peer0", "peer3", "peer4"});
  CHECK(base.rounds == 3 * (512 / 48));
  CHECK(view.prepared->rounds_per_epoch == 256 / 24);
  CHECK_THAT(refusal({"data.private=true", "data.split=global_shuffle"}),
             ContainsSubstring("data.private") && ContainsSubstring("local_shuffle"));
  CHECK_THAT(refusal({"data.private=true", "data.split=with_replacement"}),
             ContainsSubstring("data.private"));
}

TEST_CASE("streams are shared out among those that are there, and read on") {
  for (const char* split : {"local_shuffle", "dirichlet:0.5"})
    for (const bool endless : {false, true}) {
      INFO(split << (endless ? ", endless" : ""));
      const Job job = small_job({"peers=6", "graph.kind=full", "model.kind=lr", "data.format=planted",
                                 "data.rows=6000", "data.test_rows=400", "data.keys=50", "data.fields=4",
                                 std::string("data.split=") + split, "optimizer.batch=8",
                                 std::string("data.follow=") + (endless ? "true" : "false"),
                                 "exchange.codec=dense", "exchange.method=dpsgd", "run.rounds=400",
                                 "table.codec=dense", "table.density=1", "run.min_peers=1"});
      SimFaults faults{.crashes = {{2, 1.0}, {4, 1.5}}, .restarts = {{4, 3.0}}};
      faults.views = true;
      const Prepared base = prepare(job);
      Simulation simulation(base, faults);
      const SimResult result = simulation.run();
      for (PeerId p = 0; p < 6; ++p) {
        INFO("peer" << p << ": " << result.peers[p].message);
        if (p != 2) CHECK(result.peers[p].outcome == Outcome::finished);
      }
      // Each sample of an epoch has one reader, whoever is there.
      for (const auto& members :
           std::vector<std::vector<std::string>>{{"peer0", "peer1", "peer2", "peer3", "peer4", "peer5"},
                                                 {"peer0", "peer3", "peer5"},
                                                 {"peer4"}}) {
        const ViewRun view = run_of_view(base, members);
        std::map<std::uint64_t, std::size_t> seen;
        for (PeerId p = 0; p < members.size(); ++p) {
          const auto stream = click_parts(view.prepared->job, view.prepared->clicks, p, 0).train(0);
          optim::SparseBatch batch;
          while (seen.size() < 6000 && stream->next(64, false, batch)) {
            for (std::size_t i = 0; i < batch.size(); ++i) ++seen[batch.positions()[i]];
            if (endless && batch.positions().back() > 3000) break;
          }
        }
        for (const auto& [position, times] : seen) CHECK(times == 1);
        if (!endless) CHECK(seen.size() == 6000);
      }
    }
}
