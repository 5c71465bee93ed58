// Modulo quantisation: what it reconstructs, that a wrong multiple of B is seen, what it converges to.
#include <random>

#include "frozen.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "modulo.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr std::size_t kEntries = 500;
constexpr double kBound = 2;

struct Sent {
  Sent(int bits, std::uint64_t seed)
      : code(7, bits, kBound, [](Round) { return 1.0; }), theirs(kEntries), rounded(kEntries) {
    std::mt19937_64 random(seed);
    for (float& v : theirs) v = static_cast<float>(random() % 20001) / 100.0f - 100.0f;
    payload = code.encode({{0, kEntries}, 0, 2, 0, 0, 5, 1}, theirs, rounded);
  }
  /// What the receiver takes it for; empty where it says that this would be wrong.
  std::vector<float> at(const std::vector<float>& own) {
    std::vector<float> sum(kEntries, 0);
    const std::vector<float> zero(kEntries, 0);
    if (code.decode_add({{0, kEntries}, 0, 2, 3, 1.0f, 0, payload, 5, 1}, own, zero, sum)) return sum;
    CHECK(sum == zero);
    return {};
  }

  Modulo code;
  std::vector<float> theirs, rounded;
  Payload payload;
};

Run& finish(Run& run) {
  run.go();
  REQUIRE(run.all(Outcome::finished));
  return run;
}

Settings problem(const std::string& method, const std::string& graph, const Settings& more = {}) {
  return Settings{"peers=8",
                  "model.kind=quadratic",
                  "data.rows=64",
                  "optimizer.batch=8",
                  "optimizer.kind=sgd",
                  "optimizer.learning_rate=0.2",
                  "optimizer.schedule=cosine",
                  "run.rounds=3000",
                  "exchange.codec=dense",
                  "exchange.method=" + method,
                  "graph.kind=" + graph} +
         more;
}

std::uint64_t left_out(const Run& run) {
  std::uint64_t sum = 0;
  for (const auto& p : run.result.peers) sum += p.left_out;
  return sum;
}

}  // namespace

TEST_CASE("what lies near enough is reconstructed as it was rounded") {
  for (int bits = 1; bits <= 8; ++bits) {
    INFO(bits << " bits");
    const double delta = std::ldexp(0.5, -bits), near = kBound * (0.5 - delta) * 0.9999;
    Sent sent(bits, 1);
    CHECK(sent.payload->size() == sizeof(ModuloHeader) + (kEntries * static_cast<std::size_t>(bits) + 7) / 8);
    std::vector<float> own = sent.theirs;
    for (std::size_t k = 0; k < kEntries; ++k) own[k] += static_cast<float>(k % 2 == 0 ? near : -near);
    const auto got = sent.at(own);
    REQUIRE(got.size() == kEntries);
    CHECK(got == sent.rounded);
    CHECK(largest_difference(got, sent.theirs) < kBound * delta * 1.001 + 1e-4);
  }
}

TEST_CASE("the wrong multiple of the bound is seen, in one entry too") {
  for (int bits = 1; bits <= 8; ++bits) {
    INFO(bits << " bits");
    Sent sent(bits, 2);
    std::vector<float> own = sent.theirs;
    own[123] += static_cast<float>(kBound * 0.76);
    CHECK(sent.at(own).empty());
    own[123] = sent.theirs[123];
    CHECK(sent.at(own) == sent.rounded);
  }
}

TEST_CASE("what is encoded is rounded without bias") {
  std::vector<float> x(kEntries, 0.3f), rounded(kEntries);
  Modulo code(1, 2, kBound, [](Round) { return 1.0; });
  double sum = 0;
  for (Round t = 0; t < 100; ++t) {
    code.encode({{0, kEntries}, 0, 2, 0, 0, t, 0}, x, rounded);
    for (const float r : rounded) sum += static_cast<double>(r);
  }
  CHECK(sum / (100 * kEntries) == Approx(0.3).margin(0.005));
}

TEST_CASE("a code of another length or bound is refused") {
  Sent sent(4, 3);
  std::vector<float> short_x(kEntries - 10), sum(kEntries - 10);
  CHECK_THROWS_AS(
      sent.code.decode_add({{0, kEntries - 10}, 0, 2, 3, 1.0f, 0, sent.payload, 5, 1}, short_x, short_x, sum),
      std::runtime_error);
  CHECK(read_modulo_header(std::make_shared<const std::vector<std::byte>>(3)).hash == 0);
  std::vector<float> x(kEntries, NAN), rounded(kEntries);
  CHECK_THROWS_AS(sent.code.encode({{0, kEntries}, 0, 2, 0, 0, 5, 1}, x, rounded), std::runtime_error);
}

TEST_CASE("moniqua keeps the sum of the parameters and brings peers together") {
  for (const char* graph : {"ring", "one_peer_exponential", "base"})
    for (const char* bits : {"1", "4", "8"}) {
      INFO(graph << ", " << bits << " bits");
      Run run(small_job(frozen(8, "moniqua", graph, 2000,
                               {std::string("exchange.modulo_bits=") + bits, "exchange.modulo_bound=4"})));
      finish(run);
      CHECK(left_out(run) == 0);
      CHECK(distance(sum_of(run.simulation, 8), first_sum(run.prepared)) < 1e-3);
      Run alone(small_job(frozen(8, "none", graph, 2000)));
      CHECK(consensus_distance(run.simulation, 8) < 1e-3 * consensus_distance(finish(alone).simulation, 8));
    }
}

TEST_CASE("moniqua reaches the optimum, and a bound that is too small is doubled until it holds") {
  Run exact(small_job(problem("allreduce", "full")));
  const auto optimum = finish(exact).parameters(0);
  gossamer::test::Drawn drawn(3);
  for (const char* graph : {"ring", "one_peer_exponential"})
    for (const char* bits : {"1", "2", "8"})
      for (const char* bound : {"4", "0.001"}) {
        if (!drawn()) continue;
        const char* const overlap = *bits == '2' ? "true" : "false";
        INFO(graph << ", " << bits << " bits, bound " << bound << ", overlap " << overlap);
        Run run(small_job(problem(
            "moniqua", graph,
            {std::string("exchange.modulo_bits=") + bits, std::string("exchange.modulo_bound=") + bound,
             std::string("exchange.overlap=") + overlap})));
        finish(run);
        CHECK((std::string(bound) != "0.001" || left_out(run) > 0));
        double worst = 0;
        for (PeerId p = 0; p < 8; ++p)
          worst = std::max(worst, largest_difference(run.parameters(p), optimum));
        CHECK(worst < 0.1);
      }
}
