// What is done about a peer that is slower than its neighbours: rounds without it, fewer of its local steps.
#include <algorithm>
#include <tuple>
#include <utility>

#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

const Settings kWithout{"run.straggler=without"}, kFewer{"run.straggler=fewer"};
const Settings kGossip{"exchange.method=dpsgd", "graph.kind=ring", "exchange.codec=dense",
                       "exchange.staleness=32", "peers=6"};
const Settings kOverlapped = kGossip + Settings{"exchange.overlap=true"};
const Settings kReduce{"exchange.method=broadcast", "graph.kind=full",    "exchange.codec=dense",
                       "exchange.staleness=32",     "optimizer.kind=sgd", "peers=6"};
const Settings kSparse =
    kReduce + Settings{"exchange.method=topk_allgather", "exchange.codec=topk:density=0.2"};

Settings local(const std::string& method, const std::string& graph) {
  return {"exchange.method=" + method,
          "graph.kind=" + graph,
          "exchange.codec=dense",
          "exchange.local_steps=8",
          "peers=6",
          "run.rounds=800"};
}

Job with_slow(const Settings& settings, double times = 10) {
  Job job = small_job(settings);
  job.sim.slow = {{"peer1", times}};
  return job;
}
/// The same, waiting for all; dpsgd and full reduces need no bound then.
Job waiting(Settings settings, double times) {
  settings.push_back("exchange.staleness=0");
  return with_slow(settings, times);
}

double rate(const Run& run, PeerId p) {
  return static_cast<double>(run.result.peers[p].rounds) / run.result.peers[p].seconds;
}
double worst_loss(const Run& run) {
  double worst = 0;
  for (PeerId p = 0; p < run.result.peers.size(); ++p)
    worst = std::max(worst, gossamer::optim::evaluate(*make_model(run.prepared), run.simulation.parameters(p),
                                                      *run.prepared.data.test)
                                .loss());
  return worst;
}

}  // namespace

TEST_CASE("rounds go on without a slow peer, at the pace of the others") {
  const Settings task{"run.rounds=400", "sim.step_jitter=0.1"};
  for (const Settings& method : {kGossip, kOverlapped, kReduce, kSparse}) {
    INFO(method[0] << " " << method.back());
    Run even(waiting(method + task, 1)), wait(waiting(method + task, 10)),
        without(with_slow(method + task + kWithout, 10));
    even.go(), wait.go();
    REQUIRE(without.go().all(Outcome::finished));
    for (const PeerId p : {0U, 2U, 3U, 4U, 5U}) {
      INFO(p << ": " << rate(without, p) << " rounds/s, even " << rate(even, p) << ", waiting "
             << rate(wait, p));
      CHECK(rate(without, p) > 0.6 * rate(even, p));
      CHECK(rate(without, p) > 4 * rate(wait, p));
    }
    CHECK(without.result.peers[1].rounds == without.result.peers[0].rounds);
    CHECK(without.result.peers[1].rows < without.result.peers[0].rows / 3);
    std::uint64_t closed = 0;
    for (const auto& p : without.result.peers) closed += p.closed_without;
    CHECK(closed > 100);
    INFO("loss " << worst_loss(without) << ", waiting " << worst_loss(wait));
    CHECK(worst_loss(without) < 1.15 * worst_loss(wait) + 0.02);
  }
}

TEST_CASE("where all are equal nobody is left out but by chance") {
  for (const Settings& method : {kGossip, kReduce}) {
    Run run(small_job(method + kWithout + Settings{"run.rounds=300", "sim.step_jitter=0.1"}));
    REQUIRE(run.go().all(Outcome::finished));
    for (const auto& p : run.result.peers) CHECK(p.closed_without <= 15);
  }
}

TEST_CASE("a slow peer takes fewer local steps, so that rounds take all the same time") {
  for (const auto& [method, graph] : {std::pair{"local_sgd", "ring"},
                                      {"local_sgd", "full"},
                                      {"diloco", "full"},
                                      {"diloco", "ring"},
                                      {"noloco", "full"},
                                      {"noloco", "ring"}}) {
    INFO(method << " on " << graph);
    const Settings settings = local(method, graph) + Settings{"sim.step_jitter=0.1"};
    Run even(small_job(settings)), wait(with_slow(settings, 4)), fewer(with_slow(settings + kFewer, 4));
    even.go(), wait.go();
    REQUIRE(fewer.go().all(Outcome::finished));
    for (PeerId p = 0; p < 6; ++p) {
      INFO(p << ": " << rate(fewer, p) << " rounds/s, even " << rate(even, p) << ", waiting "
             << rate(wait, p));
      CHECK(rate(fewer, p) > 0.6 * rate(even, p));
      CHECK(rate(fewer, p) > 2 * rate(wait, p));
      CHECK(fewer.result.peers[p].rounds == 800);
    }
    CHECK(fewer.result.peers[1].idle_steps > 400);
    CHECK(fewer.result.peers[1].idle_steps <= 700);  // at least one of eight
    CHECK(fewer.result.peers[1].skipped_steps == 0);
    CHECK(fewer.result.peers[3].idle_steps < 80);
    INFO("loss " << worst_loss(fewer) << ", waiting " << worst_loss(wait));
    CHECK(worst_loss(fewer) < 1.15 * worst_loss(wait) + 0.02);
  }
}

TEST_CASE("where all are equal all steps are taken") {
  for (const char* method : {"local_sgd", "diloco", "noloco"}) {
    Run run(small_job(local(method, "full") + kFewer + Settings{"sim.step_jitter=0.1"}));
    REQUIRE(run.go().all(Outcome::finished));
    for (const auto& p : run.result.peers) CHECK(p.idle_steps == 0);
  }
}

TEST_CASE("where all take all their steps the bits are those of a run that waits") {
  for (const char* method : {"local_sgd", "diloco", "noloco"}) {
    const Settings settings = local(method, "full") + Settings{"sim.step_jitter=0.1"};
    const Settings patient = settings + kFewer + Settings{"run.straggler_k=1000"};
    INFO(method);
    CHECK(digest_of(small_job(patient)) == digest_of(small_job(settings)));
    CHECK(digest_of(with_slow(patient, 3)) == digest_of(small_job(settings)));
  }
}

TEST_CASE("any k and two peers: every run ends, and learns") {
  for (const char* k : {"0", "1", "6", "1e9"})
    for (const char* peers : {"2", "5"})
      for (const Settings& way : {kGossip + kWithout, kReduce + kWithout, local("diloco", "full") + kFewer,
                                  local("local_sgd", "ring") + kFewer}) {
        const Settings settings =
            way + Settings{std::string("run.straggler_k=") + k, std::string("peers=") + peers,
                           "run.rounds=300", "sim.step_jitter=0.5"};
        INFO(way[0] << ", k " << k << ", " << peers << " peers");
        Run run(with_slow(settings, 8));
        REQUIRE(run.go().all(Outcome::finished));
        for (const auto& p : run.result.peers) CHECK(p.rounds == 300);
        CHECK(worst_loss(run) < 0.5);
      }
}

TEST_CASE("what is left out hangs on times alone: the same seed is the same run") {
  for (const Settings& way : {kGossip + kWithout, kSparse + kWithout, local("noloco", "full") + kFewer}) {
    const Job job = with_slow(way + Settings{"run.rounds=120", "sim.step_jitter=0.5", "sim.loss=0.05",
                                             "sim.jitter=0.002", "exchange.parcel=16"},
                              3);
    INFO(way[0]);
    CHECK(digest_of(job, {5, {}}) == digest_of(job, {5, {}}));
    if (job.exchange.straggler == "without") CHECK(digest_of(job, {5, {}}) != digest_of(job, {6, {}}));
  }
}

TEST_CASE("members may change where stragglers are not waited for") {
  for (const Settings& way : {kGossip + kWithout, kReduce + kWithout, local("local_sgd", "full") + kFewer}) {
    INFO(way[0]);
    SimFaults faults{.crashes = {{2, 1.0}}, .restarts = {{2, 2.0}}};
    faults.views = true;
    Run run(with_slow(way + Settings{"run.min_peers=1", "run.rounds=400"}, 4), faults);
    run.go();
    for (const auto& p : run.result.peers) {
      INFO(p.message);
      CHECK(p.outcome == Outcome::finished);
    }
  }
}

TEST_CASE("a slow peer is waited for where that alone is sound") {
  const auto said = [](const Settings& settings) { return refusal(settings); };
  const auto says = [](const std::string& text, const char* words) {
    INFO(text);
    return text.find(words) != std::string::npos;
  };
  const auto with = [](const char* method, const char* graph, const char* codec) {
    return Settings{std::string("exchange.method=") + method, std::string("graph.kind=") + graph,
                    std::string("exchange.codec=") + codec};
  };
  CHECK(said(kGossip + kWithout).empty());
  CHECK(said(kReduce + kWithout).empty());
  CHECK(said(kSparse + kWithout).empty());
  CHECK(said(kGossip + kWithout + Settings{"exchange.backup=1"}).empty());
  CHECK(says(said(kGossip + kWithout + Settings{"exchange.staleness=0"}), "needs a bound"));
  CHECK(says(said(kReduce + kWithout + Settings{"optimizer.kind=adam"}), "do not add up"));
  CHECK(says(said(kGossip + kWithout + Settings{"exchange.staleness=unbounded"}), "waits for nobody"));
  CHECK(says(said(kGossip + kWithout + Settings{"exchange.aggregate=median"}), "a weighted sum"));
  CHECK(says(said(kGossip + kWithout + Settings{"graph.kind=one_peer_exponential"}), "does not vary"));
  // the bound is of rounds that close early alone
  CHECK(says(said(kReduce), "staleness = 0"));
  for (const auto& [method, graph, codec] : {std::tuple{"allreduce", "full", "dense"},
                                             {"choco", "ring", "onebit"},
                                             {"push_sum", "ring", "dense"},
                                             {"gtopk", "full", "topk"},
                                             {"gradient_tracking", "ring", "dense"},
                                             {"relay_sum", "tree", "dense"},
                                             {"local_sgd", "ring", "dense"},
                                             {"diloco", "full", "dense"},
                                             {"moniqua", "ring", "dense"}}) {
    INFO(method);
    CHECK(says(said(with(method, graph, codec) + kWithout), "none of its messages may be missing"));
  }
  for (const char* method : {"local_sgd", "diloco", "noloco"})
    CHECK(said(with(method, "full", "dense") + kFewer).empty());
  CHECK(said(with("sparse_loco", "full", "topk") + kFewer).empty());
  for (const char* method : {"dpsgd", "allreduce", "broadcast", "ensemble", "gradient_tracking"})
    CHECK(says(said(with(method, "full", "dense") + kFewer), "no local steps"));
  CHECK(says(said(with("diloco", "full", "dense") + kFewer + Settings{"exchange.fragments=2"}),
             "one exchange at a time"));
}
