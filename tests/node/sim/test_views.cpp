// Runs whose peers come and go, in virtual time.
#include <fmt/format.h>

#include <map>
#include <random>
#include <regex>
#include <set>

#include "courses.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

/// What a run with faults came to.
struct Views {
  Views(const Job& job, SimFaults faults, std::uint64_t seed = 1) : run(prepare(job), with(faults, seed)) {
    run.simulation.on_view = [this](PeerId p, double time, const View& view, double share) {
      entered[p].push_back(view.names());
      times[p].push_back(time);
      shares[p].push_back(share);
    };
    run.simulation.on_log = [this](PeerId p, double time, const std::string& line) {
      log += fmt::format("{:.3f} peer{}: {}\n", time, p, line);
    };
    run.go();
  }
  static SimFaults with(SimFaults faults, std::uint64_t seed) {
    faults.views = true;
    faults.seed = seed;
    return faults;
  }
  double mean_loss() const {
    double sum = 0;
    std::size_t count = 0;
    for (const WorkerResult& r : run.result.peers)
      if (r.outcome == Outcome::finished) sum += r.train_loss, ++count;
    return sum / static_cast<double>(count);
  }

  std::map<PeerId, std::vector<std::vector<std::string>>> entered;
  std::map<PeerId, std::vector<double>> times, shares;
  std::string log;
  Run run;
};

Job job_of(const std::string& method, const std::string& codec, const Settings& more = {}) {
  return small_job(Settings{"exchange.method=" + method, "exchange.codec=" + codec, "peers=6",
                            "run.rounds=600", "run.min_peers=1", "graph.kind=full"} +
                   more);
}

const std::vector<std::pair<const char*, const char*>> kMethods{
    {"choco", "onebit_scaled"}, {"dpsgd", "dense"},  {"allreduce", "dense"}, {"allreduce", "onebit_scaled"},
    {"push_sum", "dense"},      {"noloco", "dense"}, {"diloco", "dense"},    {"broadcast", "qsgd:bits=4"}};

}  // namespace

TEST_CASE("epochs add up over views whose rounds are larger or smaller parts of one") {
  Job job = job_of("allreduce", "dense", {"run.report_every=0.05"});
  std::vector<double> epochs;
  std::vector<std::uint64_t> rounds;
  SimFaults faults{.crashes = {{2, 1.0}, {5, 1.0}}};
  Run run(prepare(job), Views::with(faults, 1));
  run.simulation.on_report = [&](PeerId p, double, const Report& r) {
    if (p == 0) epochs.push_back(r.epoch), rounds.push_back(r.round);
  };
  run.go();
  REQUIRE(epochs.size() > 10);
  for (std::size_t k = 1; k < epochs.size(); ++k) CHECK(epochs[k] >= epochs[k - 1]);
  const auto each = [&](std::size_t k) {
    return (epochs[k] - epochs[k - 1]) / static_cast<double>(rounds[k] - rounds[k - 1]);
  };
  CHECK(each(epochs.size() - 1) < 0.8 * each(1));  // four peers' samples in place of six
}

TEST_CASE("a run goes on without peers that die") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    const Job job = job_of(method, codec);
    const double calm = Views(job, {}).mean_loss();
    Views v(job, {.crashes = {{2, 1.0}, {5, 2.0}}});
    INFO(v.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      if (p == 2 || p == 5) continue;
      CHECK(v.run.result.peers[p].outcome == Outcome::finished);
      REQUIRE_FALSE(v.entered[p].empty());
      CHECK(v.entered[p].back() == std::vector<std::string>{"peer0", "peer1", "peer3", "peer4"});
      CHECK(v.times[p].front() < 1.0 + 2.5);
    }
    CHECK(v.mean_loss() < 1.3 * calm + 0.05);
  }
}

TEST_CASE("a peer that died comes back with what the others have learned") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    const Job job = job_of(method, codec);
    Views v(job, {.crashes = {{2, 0.8}}, .restarts = {{2, 2.0}}});
    INFO(v.log);
    for (PeerId p = 0; p < 6; ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      CHECK(v.run.result.peers[p].outcome == Outcome::finished);
      REQUIRE_FALSE(v.entered[p].empty());
      CHECK(v.entered[p].back().size() == 6);
    }
    REQUIRE_FALSE(v.shares[2].empty());
    CHECK(v.shares[2].front() > 0.1);
    if (find_method(method).invariants.all_alike) CHECK(v.run.peers_identical());
  }
}

TEST_CASE("of so many that news are looked at now and then, one dies and comes back") {
  constexpr std::size_t kPeers = 70;
  const Job job = job_of("choco", "onebit_scaled",
                         {fmt::format("peers={}", kPeers), "graph.kind=ring", "run.rounds=400"});
  Views v(job, {.crashes = {{2, 1.0}}, .restarts = {{2, 2.5}}});
  INFO(v.log);
  for (PeerId p = 0; p < kPeers; ++p) {
    INFO("peer" << p << ": " << v.run.result.peers[p].message);
    CHECK(v.run.result.peers[p].outcome == Outcome::finished);
    REQUIRE_FALSE(v.entered[p].empty());
    CHECK(v.entered[p].back().size() == kPeers);
  }
  CHECK(v.entered[0].front().size() == kPeers - 1);
}

TEST_CASE("peers that no file names join, and all go on with them") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    const Job job = job_of(method, codec);
    const double calm = Views(job, {}).mean_loss();
    // of those that join one comes before the other by its name, and one goes again
    Views v(job, {.crashes = {{7, 2.5}}, .joins = {{"zeta", 0.6}, {"alpha", 1.2}, {"mid", 1.3}}});
    INFO(v.log);
    REQUIRE(v.run.result.peers.size() == 9);
    using Names = std::vector<std::string>;
    const Names named{"peer0", "peer1", "peer2", "peer3", "peer4", "peer5"};
    for (PeerId p = 0; p < 9; ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      REQUIRE_FALSE(v.entered[p].empty());
      if (p == 7) continue;
      CHECK(v.run.result.peers[p].outcome == Outcome::finished);
      CHECK(v.entered[p].back() == named + Names{"mid", "zeta"});
    }
    CHECK(v.entered[0].front() == named + Names{"zeta"});
    CHECK(v.entered[7].back() == named + Names{"alpha", "mid", "zeta"});
    CHECK(v.shares[6].front() > 0.05);  // what it begins with is what the others have learned
    CHECK(v.mean_loss() < 1.3 * calm + 0.05);
    if (find_method(method).invariants.all_alike) CHECK(v.run.parameters(6) == v.run.parameters(0));
  }
}

TEST_CASE("those that join fetch the state while the others go on, where these need not be alike") {
  for (const auto& [method, codec] : kMethods) {
    INFO(method << " " << codec);
    Views v(job_of(method, codec), {.crashes = {}, .joins = {{"late", 1.0}}});
    INFO(v.log);
    const bool alike = begins_alike(find_method(method));
    CHECK(says(v.log, "peer6: taking the state of"));
    CHECK((v.log.find("while the others go on") == std::string::npos) == alike);
    CHECK(v.run.all(Outcome::finished));
  }
}

TEST_CASE("a run of many is joined as one of few is") {
  const Job job = job_of("dpsgd", "dense", {"peers=66", "graph.kind=ring", "run.rounds=150"});
  Views v(job, {.crashes = {}, .joins = {{"a", 0.5}, {"b", 0.8}, {"c", 1.0}, {"d", 1.2}}});
  INFO(v.log);
  for (PeerId p = 66; p < 70; ++p) {
    INFO(v.run.result.peers[p].message);
    CHECK(v.run.result.peers[p].outcome == Outcome::finished);
  }
}

TEST_CASE("at any time peers join and die and come back") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](double from, double to) {
      return from + (to - from) * static_cast<double>(random() >> 11) * 0x1p-53;
    };
    const auto& [method, codec] = kMethods[seed % kMethods.size()];
    SimFaults faults;
    double at = 0;
    const std::size_t joins = 1 + random() % 4;
    for (std::size_t j = 0; j < joins; ++j) {
      at += draw(0, 0.8);
      faults.joins.emplace_back(fmt::format("{}{}", random() % 2 ? "n" : "q", j), at);
    }
    for (int k = 0; k < 2; ++k) {
      const auto victim = static_cast<PeerId>(1 + random() % (5 + joins));
      if (k == 1 && victim == faults.crashes.front().first) break;
      faults.crashes.emplace_back(victim, draw(1, 3.5));
      if (random() % 2) faults.restarts.emplace_back(victim, faults.crashes.back().second + draw(0.1, 2));
    }
    std::set<PeerId> gone;
    for (const auto& [p, when] : faults.crashes) gone.insert(p);
    for (const auto& [p, when] : faults.restarts) gone.erase(p);
    for (const auto& [p, when] : faults.crashes)
      if (p >= 6 && when <= faults.joins[p - 6].second) gone.erase(p);
    // with jitter, what was sent in one view comes in the next ones
    Views v(job_of(method, codec, {fmt::format("sim.jitter={}ms", seed % 3 * 30)}), faults, seed);
    INFO("seed " << seed << " " << method << " " << codec << "\n" << v.log);
    for (PeerId p = 0; p < v.run.result.peers.size(); ++p) {
      INFO("peer" << p << ": " << v.run.result.peers[p].message);
      if (!gone.contains(p)) CHECK(v.run.result.peers[p].outcome == Outcome::finished);
    }
  }
}

TEST_CASE("no step that is being computed is thrown away when the view changes, where peers may be apart") {
  for (const auto& [method, codec, staleness] : {std::tuple("choco", "onebit_scaled", "0"),
                                                 {"dpsgd", "dense", "0"},
                                                 {"dpsgd", "dense", "\"unbounded\""},
                                                 {"push_sum", "dense", "0"}}) {
    INFO(method << " " << codec << " staleness " << staleness);
    const Job job =
        job_of(method, codec,
               {"sim.step_time=1s", "run.rounds=40", fmt::format("exchange.staleness={}", staleness)});
    const double calm = Views(job, {}).run.result.virtual_seconds;
    // one that comes back: the view changes twice, in the midst of steps
    Views v(job, {.crashes = {{2, 10.5}}, .restarts = {{2, 14.3}}, .breaks = true});
    INFO(v.log);
    CHECK(v.run.all(Outcome::finished));
    REQUIRE(v.times[0].size() == 2);
    const bool by_samples = job.exchange.staleness == std::nullopt;
    // by samples the others do what the missing one would have done in its 4 s
    CHECK(v.run.result.virtual_seconds < calm + (by_samples ? 4.0 * 1 / 6 + 1.2 : 0.2));
  }
}

TEST_CASE("who comes costs the others no step, where none can be kept") {
  for (const auto& [method, graph] :
       {std::tuple("allreduce", "graph.kind=full"), {"gradient_tracking", "graph.kind=ring"}}) {
    INFO(method);
    // more than those of whom everybody keeps in touch with everybody
    const Job job = job_of(method, "dense", {"sim.step_time=1s", "run.rounds=40", "peers=16", graph});
    const SimFaults gone{.crashes = {{2, 10.5}}, .breaks = true};
    SimFaults back = gone;
    back.restarts = {{2, 14.3}};
    const double without = Views(job, gone).run.result.virtual_seconds;
    Views v(job, back);
    INFO(v.log);
    CHECK(v.run.all(Outcome::finished));
    REQUIRE(v.times[0].size() == 2);
    CHECK(v.run.result.virtual_seconds < without + 0.2);
  }
}

TEST_CASE("of two that come at once the quicker one waits for the slower no more than the others do") {
  const Job job = job_of("dpsgd", "dense",
                         {"graph.kind=ring", "sim.step_time=20ms", "sim.cut=[\"peer5>peer3@1.5s+3s\"]"});
  Views v(job, {.crashes = {{2, 1.0}, {3, 1.0}}, .restarts = {{2, 1.5}, {3, 1.5}}, .breaks = true});
  INFO(v.log);
  CHECK(says(v.log, "peer3: taking the state of peer5"));  // over the link that is cut
  CHECK(v.run.all(Outcome::finished));
  REQUIRE_FALSE(v.times[2].empty());
  CHECK(v.times[2].front() < 2.0);
  CHECK(v.entered[2].front().size() == 5);
  REQUIRE_FALSE(v.times[3].empty());
  CHECK(v.times[3].front() > 4.4);
  CHECK(v.entered[0].back().size() == 6);
}

TEST_CASE("who fetches the state of a member that dies asks another one at once") {
  const Job job = job_of("dpsgd", "dense", {"graph.kind=ring", "sim.step_time=20ms", "sim.latency=20ms"});
  const SimFaults faults{.crashes = {{3, 1.0}}, .restarts = {{3, 1.5}}, .breaks = true};
  const std::string log = Views(job, faults).log;
  std::smatch taken;  // when, and of whom
  REQUIRE(std::regex_search(log, taken, std::regex("([0-9.]+) peer3: taking the state of peer([0-9])")));
  const double when = std::stod(taken[1]);
  SimFaults more = faults;
  more.crashes.emplace_back(std::stoi(taken[2]), when + 0.005);
  for (const bool back : {false, true}) {  // as a start that has nothing
    INFO((back ? "the other one comes back" : "the other one is gone"));
    if (back) more.restarts.emplace_back(std::stoi(taken[2]), when + 0.1);
    Views v(job, more);
    INFO(v.log);
    REQUIRE_FALSE(v.times[3].empty());
    CHECK(v.times[3].front() < when + 2.0);
  }
}

TEST_CASE("who goes without a word costs the others of a dense reduce no step") {
  const Job job =
      job_of("allreduce", "dense", {"sim.step_time=1s", "run.rounds=30", "peers=8", "graph.kind=full"});
  const double calm = Views(job, {}).run.result.virtual_seconds;
  for (const double when : {10.1, 10.5, 10.95}) {
    INFO("at " << when);
    Views v(job, {.crashes = {{2, when}}, .breaks = true});
    INFO(v.log);
    CHECK(v.run.result.virtual_seconds < calm + 0.3);
    CHECK(v.run.result.virtual_seconds > calm - 0.5);
  }
}

TEST_CASE("a peer that comes back shortly before the others end does not do the whole run again") {
  const Job job = job_of("choco", "onebit_scaled", {"peers=2"});
  const SimFaults crash{.crashes = {{1, 2.0}}, .breaks = true};
  const double end = Views(job, crash).run.result.virtual_seconds;
  const auto rows = [](const Views& v) { return v.run.result.peers[0].rows + v.run.result.peers[1].rows; };
  const std::uint64_t all = rows(Views(job, {}));
  for (int before = 30; before > 0; --before) {
    SimFaults back = crash;
    back.restarts = {{1, end - 0.01 * before}};
    const Views v(job, back);
    INFO("started again " << before << " hundredths of a second before the end\n" << v.log);
    CHECK(v.run.result.peers[0].outcome == Outcome::finished);
    CHECK(v.run.result.peers[1].outcome == Outcome::finished);
    CHECK(rows(v) <= all);
  }
}
