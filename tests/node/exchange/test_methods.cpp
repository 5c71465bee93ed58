// The methods beside all-reduce, D-PSGD and CHOCO: what they converge to on a convex problem whose peers have
// heterogeneous data, whole batches and thus exact gradients.
#include <tuple>

#include "gossamer_test/catch.h"
#include "method.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

/// Six peers of 8 rows each; every step sees all of a peer's rows.
Settings problem(const std::string& method, const std::string& graph, const Settings& more = {}) {
  return Settings{"peers=6",
                  "model.kind=quadratic",
                  "data.rows=48",
                  "optimizer.batch=8",
                  "optimizer.kind=sgd",
                  "optimizer.learning_rate=0.2",
                  "run.rounds=1500",
                  "exchange.codec=dense",
                  "exchange.method=" + method,
                  "graph.kind=" + graph} +
         more;
}

std::vector<float> optimum() {
  static const std::vector<float> x = Run(small_job(problem("allreduce", "full"))).go().parameters(0);
  return x;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum);
}

/// The farthest that a peer ended from the optimum.
double error(const Settings& settings) {
  Run run(small_job(settings));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  double worst = 0;
  for (PeerId p = 0; p < 6; ++p) worst = std::max(worst, distance(run.parameters(p), optimum()));
  return worst;
}

}  // namespace

TEST_CASE("methods for heterogeneous data reach the optimum, plain gossip stops short of it") {
  CHECK(error(problem("dpsgd", "ring")) > 0.05);
  CHECK(error(problem("gradient_tracking", "ring")) < 1e-5);
  CHECK(error(problem("gradient_tracking", "exponential")) < 1e-5);
  CHECK(error(problem("gradient_tracking", "base", {"graph.degree=1"})) < 1e-5);
  // Five times the rate that steps after the mixing would bear.
  CHECK(error(problem("gradient_tracking", "ring", {"optimizer.learning_rate=1.2"})) < 1e-5);
  CHECK(error(problem("exact_diffusion", "ring")) < 1e-5);
  CHECK(error(problem("exact_diffusion", "star")) < 1e-5);
}

TEST_CASE("full reduces by broadcast reach the optimum, with quantised gradients too") {
  CHECK(error(problem("broadcast", "full")) < 1e-5);
  const Settings falling{"optimizer.schedule=cosine", "run.rounds=4000"};
  const auto coded = [&](const char* method, const char* codec) {
    return error(problem(method, "full", falling + Settings{std::string("exchange.codec=") + codec}));
  };
  CHECK(coded("topk_allgather", "topk:density=0.3") < 1e-3);
  CHECK(coded("topk_allgather", "onebit_scaled") < 1e-3);
  CHECK(coded("broadcast", "qsgd:bits=8") < 1e-2);
}

TEST_CASE("broadcast leaves all peers identical to the bit") {
  for (const char* codec : {"dense", "qsgd", "qsgd:bits=2", "topk"}) {
    const std::string method = std::string(codec) == "topk" ? "topk_allgather" : "broadcast";
    Run run(
        small_job({"graph.kind=full", "exchange.method=" + method, std::string("exchange.codec=") + codec}));
    run.go();
    INFO(codec);
    CHECK(run.all(Outcome::finished));
    CHECK(run.peers_identical());
  }
}

TEST_CASE("gossip with a falling rate reaches the optimum: compressed, relayed, random, by local steps") {
  const Settings falling{"optimizer.schedule=cosine", "run.rounds=3000"};
  CHECK(error(problem("dpsgd", "ring", falling)) < 0.02);
  CHECK(error(problem("relay_sum", "tree", falling + Settings{"graph.degree=2"})) < 0.02);
  CHECK(error(problem("relay_sum", "star", falling)) < 0.02);
  CHECK(error(problem("epidemic", "epidemic", falling + Settings{"graph.degree=2"})) < 0.1);
  CHECK(error(problem("local_sgd", "full", falling + Settings{"exchange.local_steps=8"})) < 0.02);
  CHECK(error(problem("local_sgd", "ring", falling + Settings{"exchange.local_steps=4"})) < 0.05);
}

TEST_CASE("gossip that feeds errors back comes much nearer than training alone") {
  // What a coarse code of x leaves out never falls below its share of x, so that some distance remains.
  const Settings falling{"optimizer.schedule=cosine", "run.rounds=3000"};
  const double alone = error(problem("none", "ring", falling));
  CHECK(alone > 1.5);
  for (const auto& [codec, ring, varying] : {std::tuple{"dense", 0.005, 0.02},
                                             {"qsgd:bits=4", 0.05, 0.15},
                                             {"onebit_scaled", 0.3, 0.9},
                                             {"topk:density=0.3", 0.3, 1.7}}) {
    INFO(codec);
    const Settings coded = falling + Settings{std::string("exchange.codec=") + codec};
    CHECK(error(problem("deep_squeeze", "ring", coded)) < ring);
    CHECK(error(problem("deep_squeeze", "ring", coded + Settings{"exchange.overlap=true"})) < ring);
    CHECK(error(problem("deep_squeeze", "base", coded + Settings{"graph.degree=1"})) < varying);
  }
}

TEST_CASE("relayed sums weigh all peers alike once they came") {
  // Without gradients the peers' mean is left alone, and after as many rounds as the tree is deep all have
  // it.
  const Settings still{"optimizer.learning_rate=1e-12", "run.rounds=40", "graph.degree=1"};
  Run run(small_job(problem("relay_sum", "tree", still)));
  run.go();
  for (PeerId p = 1; p < 6; ++p) CHECK(distance(run.parameters(p), run.parameters(0)) < 1e-5);
}

TEST_CASE("local steps send as many times less") {
  const auto bytes = [](const Settings& settings) {
    Run run(small_job(settings));
    run.go();
    return static_cast<double>(run.result.peers[0].traffic.data_bytes_out);
  };
  const double every = bytes(problem("dpsgd", "ring")),
               rarely = bytes(problem("local_sgd", "ring", {"exchange.local_steps=8"}));
  CHECK(rarely == Approx(every / 8).epsilon(0.01));
  for (const std::string method : {"choco", "deep_squeeze", "moniqua", "push_sum"}) {
    INFO(method);
    const double each = bytes(problem(method, "ring"));
    CHECK(bytes(problem(method, "ring", {"exchange.local_steps=1"})) == each);
    CHECK(bytes(problem(method, "ring", {"exchange.local_steps=8"})) == Approx(each / 8).epsilon(0.05));
  }
}

TEST_CASE("every method says what it is sound with") {
  for (const Method* m : methods()) {
    const std::string text = method_text(*m);
    CHECK(says(text, std::string(m->row.name) + ": "));
    for (const char* key : {"graph", "weights", "schedule", "codec", "staleness"}) CHECK(says(text, key));
  }
  CHECK_THROWS_AS(find_method("chocolate"), ConfigError);
  CHECK(says(method_text(find_method("diloco")), "fragments outer_delay\n"));
  CHECK(says(method_text(find_method("gtopk")), "momentum_correction clip density_warmup layer_density\n"));
}
