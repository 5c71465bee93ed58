// The default consensus step: bare averaging settles under it, whatever the codec; and what is said of
// others.
#include <random>

#include "consensus_step.h"
#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "gossip_lab.h"
#include "plan.h"

namespace gossamer::node::test {
namespace {

Plan plan_of(const Settings& settings) { return make_plan(small_job(settings), 0); }

TEST_CASE("under the default gamma every codec averages: a tenth of the table, drawn") {
  const auto cases = gossip_cases(8, "");
  std::mt19937_64 random(20260101);  // its sequence is fixed by the standard
  gossamer::test::Drawn drawn(5);
  for (std::size_t i = random() % 10; i < cases.size(); i += 1 + random() % 19) {
    if (!drawn()) continue;
    const GossipCourse course = gossip(cases[i], 2000, i);
    INFO(cases[i].name() << ", gamma " << course.gamma);
    CHECK(course.most <= 2);
    CHECK(course.last < 1);
  }
}

TEST_CASE("randk and topk as dense as a twentieth and more average on a full graph") {
  for (const char* codec :
       {"randk:density=0.05", "randk:density=0.2", "topk:density=0.1", "topk:density=0.25"})
    for (const char* method : {"choco", "deep_squeeze"}) {
      const GossipCourse course = gossip({method, "full", codec, 8, "normal"}, 600, 1);
      INFO(method << ", " << codec << ", gamma " << course.gamma);
      CHECK(course.holds());
    }
}

TEST_CASE("twice the step that is stable in mean square is not") {
  for (const double density : {0.05, 0.3}) {
    const double stable = 2 * density / (2 - density);
    const GossipCase c{"choco", "full", "randk:density=" + std::to_string(density), 8, "normal"};
    CHECK(gossip(c, 1000, 1, stable / 2).holds());
    CHECK_FALSE(gossip(c, 1000, 1, 2 * stable).holds());
  }
}

TEST_CASE("gamma is the job's or else follows from the codec's traits, the graph and the method") {
  CHECK(plan_of({"exchange.gamma=0.25"}).gamma == 0.25);
  const auto gamma = [](const std::string& codec, const std::string& method = "choco",
                        const char* graph = "ring") {
    return plan_of({"peers=8", "exchange.codec=" + codec, "exchange.method=" + method,
                    std::string("graph.kind=") + graph})
        .gamma;
  };
  for (const char* codec : {"dense", "fp16", "bf16", "randk:density=1", "topk:density=1"})
    CHECK(gamma(codec) == 1);
  for (const char* codec : {"onebit", "onebit_scaled", "qsgd:bits=4", "qsgd:bits=8", "intq"})
    for (const char* graph : {"ring", "full", "star"}) CHECK(gamma(codec, "choco", graph) == 0.5);
  CHECK(gamma("onebit_two") == Approx(0.5 / 1.5));
  CHECK(gamma("topk:density=0.01") == 0.02);
  CHECK(gamma("topk:density=0.2") == Approx(0.2 / 1.8));
  CHECK(gamma("randk:density=0.2") == Approx(0.1 / 0.9));
  CHECK(gamma("randk:density=0.6,scale=1") == Approx(0.2 / 1.8));
  for (const char* codec : {"fp16", "onebit", "topk:density=0.3"}) CHECK(gamma(codec, "deep_squeeze") == 0.1);
  CHECK(gamma("dense", "deep_squeeze") == 1);
  CHECK(gamma("randk:density=0.03", "deep_squeeze") == Approx(0.02 / 1.97));
}

TEST_CASE("what goes dense is mixed whole, unless the job states gamma") {
  const auto plan_of_run = [](const Settings& more) {
    const Settings settings{"model.kind=mlp", "exchange.codec=topk:density=0.01", "exchange.dense_below=50"};
    return *prepare(small_job(settings + more)).plan;
  };
  for (const char* method : {"choco", "deep_squeeze"}) {
    const Settings by{std::string("exchange.method=") + method};
    const Plan plan = plan_of_run(by);
    REQUIRE(plan.parcels.size() == 2);  // 88 and 27 entries
    CHECK(plan.gamma_in(0, 0) == 0.02);
    CHECK(plan.gamma_in(0, 1) == 1);
    const Plan warm = plan_of_run(by + Settings{"exchange.dense_rounds=3"});
    CHECK(warm.gamma_in(2, 0) == 1);
    CHECK(warm.gamma_in(3, 0) == 0.02);
    const Plan stated = plan_of_run(by + Settings{"exchange.gamma=0.03", "exchange.dense_rounds=3"});
    for (const ParcelId p : {0, 1}) CHECK(stated.gamma_in(0, p) == 0.03);
  }
  CHECK(plan_of_run({"exchange.dense_rounds=3", "exchange.staleness=1"}).gamma_in(0, 0) == 0.02);
}

TEST_CASE("a run of which everything goes dense is one of codec dense") {
  for (const char* method : {"choco", "deep_squeeze"})
    for (const char* overlap : {"false", "true"}) {
      const Settings by{std::string("exchange.method=") + method, std::string("exchange.overlap=") + overlap};
      const auto end = [&](const Settings& more) {
        Run run(small_job(by + more));
        run.go();
        REQUIRE(run.all(Outcome::finished));
        return run.parameters(2);
      };
      const auto dense = end({"exchange.codec=dense"});
      CHECK(end({"exchange.codec=topk:density=0.01", "exchange.dense_below=1000"}) == dense);
      CHECK(end({"exchange.codec=topk:density=0.01", "exchange.dense_rounds=20"}) == dense);
    }
}

TEST_CASE("a run in which gamma is too small to average anything is accepted with a warning") {
  const auto warning = [](const Settings& more) {
    const Prepared p = prepare(small_job(Settings{"exchange.codec=topk:density=0.001"} + more));
    return mixing_warning(p.job, *p.plan, p.rounds);
  };
  CHECK(warning({}).find("exchange.gamma is 0.002, and in 20 exchanges that is too little") !=
        std::string::npos);
  CHECK(warning({"run.rounds=4000", "exchange.local_steps=8"}).find("in 500 exchanges") != std::string::npos);
  for (const Settings& more : {Settings{"run.rounds=2000"},
                               {"exchange.gamma=0.2"},
                               {"peers=1"},
                               {"exchange.dense_below=1000"},
                               {"exchange.codec=onebit"},
                               {"exchange.method=none"}})
    CHECK(warning(more).empty());
}

TEST_CASE("gamma is less where one round of averaging goes beyond the mean") {
  // a hypercube of 64: W = (I + A)/7, the least eigenvalue of A is −6
  const Plan plan = plan_of({"peers=64", "graph.kind=hypercube"});
  CHECK(topology::largest_pull(plan.schedule) == Approx(12.0 / 7).epsilon(1e-3));
  CHECK(plan.gamma == Approx(0.5 * (5.0 / 3) / (12.0 / 7)).epsilon(1e-3));
  CHECK(plan_of({"peers=32", "graph.kind=hypercube"}).gamma == 0.5);
}

TEST_CASE("a gamma beyond what was found stable is accepted with a warning that names the default") {
  const auto warning = [](const Settings& settings) {
    const Job job = small_job(settings);
    return gamma_warning(job, make_plan(job, 0));
  };
  const std::string text = warning({"exchange.codec=topk:density=0.01", "exchange.gamma=0.5"});
  for (const char* words :
       {"exchange.gamma = 0.5", "topk:density=0.01", "'ring'", "0.028", "\"auto\" is 0.02"}) {
    INFO(words << " in " << text);
    CHECK(text.find(words) != std::string::npos);
  }
  CHECK(warning({"exchange.codec=topk:density=0.01"}).empty());
  CHECK(warning({"exchange.gamma=0.7"}).empty());
  CHECK(warning({"exchange.gamma=1", "exchange.codec=dense"}).empty());
  CHECK(warning({"exchange.method=dpsgd", "exchange.codec=dense"}).empty());
  const Prepared dense = prepare(
      small_job({"exchange.codec=topk:density=0.01", "exchange.gamma=1", "exchange.dense_below=1000"}));
  CHECK(gamma_warning(dense.job, *dense.plan).empty());
}

}  // namespace
}  // namespace gossamer::node::test
