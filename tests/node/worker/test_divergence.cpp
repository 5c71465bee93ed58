// A run that runs away ends with an error that names what to change; one that learns is left alone.
#include <cmath>
#include <limits>

#include "divergence.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

namespace gossamer::node::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST_CASE("a loss that is ten times too large in three reports running is a divergence") {
  DivergenceWatch watch(10);  // ln 10 = 2.30
  watch.on_loss(1.5);
  watch.on_loss(1e9);
  CHECK(watch.on_report(23.1).empty());
  CHECK(watch.on_report(23.1).empty());
  CHECK(watch.on_report(23.0).empty());  // learns again
  CHECK(watch.on_report(30).empty());
  CHECK(watch.on_report(kNaN).empty());  // no step fell into it
  CHECK(watch.on_report(kInfinity).empty());
  CHECK(says(watch.on_report(40), "above 23.03 in 3 reports running"));
}

TEST_CASE("a loss is measured by its first value where that is more than ln(classes)") {
  DivergenceWatch watch(2);
  watch.on_loss(5);
  for (int i = 0; i < 10; ++i) CHECK(watch.on_report(50).empty());
  CHECK(watch.on_report(50.1).empty());
  CHECK(watch.on_report(50.1).empty());
  CHECK_FALSE(watch.on_report(50.1).empty());
}

TEST_CASE("a loss that is ten times too large in each of the last steps is a divergence at the end") {
  DivergenceWatch watch(10);
  watch.on_loss(1.5);
  for (int i = 0; i < 15; ++i) watch.on_loss(24);
  CHECK(watch.at_end().empty());
  watch.on_loss(25);
  CHECK(says(watch.at_end(), "above 23.03 in the last 16 steps, at last 25 (it began at 1.5)"));
  watch.on_loss(23);  // learns again
  CHECK(watch.at_end().empty());
}

TEST_CASE(
    "parameters a thousand times as large as at first are a divergence, and so are those that are no "
    "numbers") {
  DivergenceWatch watch(10);
  CHECK(watch.on_norm(3).empty());
  CHECK(watch.on_norm(4000).empty());
  CHECK(says(watch.on_norm(4001), "the parameters' norm became 4001 (it began at 3)"));
  CHECK_FALSE(watch.on_norm(kNaN).empty());
  CHECK_FALSE(DivergenceWatch(10).on_norm(kNaN).empty());
}

TEST_CASE("peers may be far from each other only where their mean is large too") {
  const std::vector<float> a{3, 0}, b{-1, 0}, c{1, 6};
  const std::vector<std::span<const float>> models{a, b, c};
  const Spread spread = spread_of(models);  // mean (1, 2)
  CHECK(spread.mean_square == Approx(5));
  CHECK(spread.distance == Approx((8.0 + 8 + 16) / 3));
  CHECK(spread.farthest == 2);
  CHECK(too_far_apart(spread, 0).empty());
  CHECK(too_far_apart({6000, 5, 0}, 0).empty());
  CHECK_FALSE(too_far_apart({6001, 5, 0}, 0).empty());
  CHECK(too_far_apart({6001, 5, 0}, 1).empty());
  CHECK_FALSE(too_far_apart({kNaN, kNaN, 0}, 1).empty());
}

/// Unlike data of a convex problem, which a rate above 2 makes worse in every step.
Settings quadratic(const Settings& settings) {
  return Settings{"model.kind=quadratic", "data.rows=64",  "optimizer.batch=8", "peers=8",
                  "graph.kind=full",      "run.rounds=400"} +
         settings;
}

/// One peer names what went wrong, the settings and what to do; the others name that peer.
std::string message_of_diverged(const Settings& settings) {
  Run run(small_job(settings));
  run.go();
  std::string message, name;
  for (PeerId p = 0; p < run.result.peers.size(); ++p)
    if (run.result.peers[p].outcome == Outcome::failed) {
      message = run.result.peers[p].message;
      name = run.prepared.names[p];
    }
  INFO(message);
  CHECK(says(message, "the run diverged in round "));
  CHECK(says(message, "optimizer.learning_rate (now "));
  CHECK(says(message, "codec '" + run.prepared.job.exchange.codec + "'"));
  if (run.prepared.job.exchange.method == "choco") CHECK(says(message, "exchange.gamma (now "));
  for (const WorkerResult& r : run.result.peers) {
    INFO(r.message);
    CHECK((r.outcome == Outcome::failed || (r.outcome == Outcome::lost_peer && says(r.message, "diverged"))));
  }
  return message;
}

TEST_CASE("simulated: a value that is not finite ends the run") {
  for (const char* method : {"choco", "dpsgd", "none", "deep_squeeze", "moniqua", "push_sum"}) {
    INFO(method);
    const std::string codec = std::string(method) == "choco" ? "qsgd" : "dense";
    message_of_diverged(quadratic({"optimizer.learning_rate=1e30", std::string("exchange.method=") + method,
                                   "exchange.codec=" + codec}));
  }
}

TEST_CASE("simulated: parameters that grow without end end the run") {
  const std::string message =
      message_of_diverged(quadratic({"optimizer.learning_rate=3", "run.report_every=1000"}));
  CHECK(says(message, "the parameters' norm became "));
}

TEST_CASE("simulated: parameters are looked at after the last round too") {
  for (const char* peers : {"1", "4"})
    CHECK(says(message_of_diverged(quadratic({"optimizer.learning_rate=5", "run.rounds=8", "graph.kind=ring",
                                              std::string("peers=") + peers, "exchange.codec=dense"})),
               "the parameters' norm became "));
}

TEST_CASE("simulated: a loss that grows ends the run") {
  const std::string message = message_of_diverged(
      quadratic({"optimizer.learning_rate=2.3", "run.report_every=0.02", "sim.step_time=5ms"}));
  CHECK(says(message, "the training loss was above "));
}

TEST_CASE("simulated: a loss that grew ends a run that is over before its third report") {
  for (const char* peers : {"1", "8"})
    CHECK(says(message_of_diverged(quadratic({"optimizer.learning_rate=2.3", "run.report_every=1000",
                                              "run.rounds=26", std::string("peers=") + peers})),
               "the training loss was above "));
}

TEST_CASE("simulated: peers that averaging drives apart end the run") {
  // Reports come so rarely that three of them, for the loss, take longer than the distance takes to grow.
  const std::string message =
      message_of_diverged(quadratic({"peers=4", "graph.kind=ring", "data.rows=512",
                                     "optimizer.learning_rate=0.01", "exchange.codec=randk:density=0.05",
                                     "exchange.gamma=0.5", "run.rounds=4000", "run.report_every=0.2"}));
  INFO(message);
  CHECK(says(message, "the consensus distance became "));
  CHECK(says(message, "exchange.gamma (now 0.5, by default 0.0256"));
}

TEST_CASE("simulated: peers that nothing draws together may go where their data lead") {
  Run run(
      small_job(quadratic({"exchange.method=none", "exchange.codec=dense", "optimizer.learning_rate=0.5"})));
  run.go();
  CHECK(run.all(Outcome::finished));
}

TEST_CASE("simulated: an attacker's own figures end no run") {
  Job job = small_job({"graph.kind=full", "exchange.method=dpsgd", "exchange.codec=dense",
                       "exchange.aggregate=median", "sim.attackers=[\"peer3=label_flip\"]", "run.rounds=400",
                       "run.report_every=0.02", "optimizer.learning_rate=0.5"});
  Run run(std::move(job));
  run.go();
  CHECK(run.all(Outcome::finished));
}

}  // namespace
}  // namespace gossamer::node::test
