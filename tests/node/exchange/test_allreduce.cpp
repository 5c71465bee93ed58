// All-reduce by every way, for numbers of peers that are powers of two and others: the sum, identical bits,
// and the choice by cost.
#include "gossamer_test/catch.h"
#include "plan.h"
#include "reduce_lab.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

Settings allreduce(std::size_t peers, const std::string& codec, const Settings& more = {}) {
  return Settings{"peers=" + std::to_string(peers), "graph.kind=full",    "exchange.method=allreduce",
                  "exchange.codec=" + codec,        "optimizer.kind=sgd", "optimizer.learning_rate=1"} +
         more;
}

/// −Σ_t Σ_i share_i·g_i in double.
std::vector<double> sums(const ReduceLab& lab, std::size_t n, Round rounds) {
  std::vector<double> x(n);
  for (Round t = 0; t < rounds; ++t)
    for (PeerId p = 0; p < lab.peers(); ++p)
      for (std::size_t i = 0; i < n; ++i) x[i] -= lab.share(p) * static_cast<double>(normal()(p, t, i));
  return x;
}
double worst(const std::vector<double>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - static_cast<double>(b[i])));
  return most;
}

/// What is known of all links.
struct Links {
  double latency, bandwidth;  ///< s, bit/s
};
Job with_links(Job job, const Links& links) {
  const auto peers = static_cast<PeerId>(job.peers.size());
  for (PeerId a = 0; a < peers; ++a)
    for (PeerId b = a + 1; b < peers; ++b) job.links.push_back({a, b, links.bandwidth, links.latency});
  return job;
}

/// Virtual seconds of a round without computation, all entries in one parcel.
double seconds_of_round(std::size_t peers, std::size_t n, const Links& links, const Settings& more) {
  constexpr double kRounds = 10;
  Run run(
      with_links(small_job(allreduce(
                     peers, "dense",
                     Settings{"model.kind=quadratic", "data.features=" + std::to_string(n), "data.rows=64",
                              "data.test_rows=1", "optimizer.batch=1", "optimizer.learning_rate=0.01",
                              "run.rounds=10", "sim.step_time=1e-9", "sim.step_jitter=0"} +
                         more)),
                 links));
  run.go();
  return run.result.peers[0].seconds / kRounds;
}

}  // namespace

TEST_CASE("all-reduce matches the sum for 2 to 17 peers, by the ring and by halving and doubling") {
  for (std::size_t peers = 2; peers <= 17; ++peers)
    for (const char* algorithm : {"ring", "halving_doubling"})
      for (const std::size_t n : {1U, 17U, 100U, 777U}) {
        INFO(peers << " peers, " << algorithm << ", " << n << " entries");
        const Settings settings{std::string("exchange.algorithm=") + algorithm, "exchange.parcel=500"};
        ReduceLab lab(with_batches(small_job(allreduce(peers, "dense", settings)), different_batches(peers)),
                      n, normal(), peers);
        for (Round t = 0; t < 3; ++t) lab.round();
        CHECK(worst(sums(lab, n, 3), lab.x(0)) < 1e-6);
        CHECK(lab.identical());
      }
}

TEST_CASE(
    "halving and doubling takes 2 log P messages of a peer, and two more pairs where peers are folded") {
  const auto messages = [](std::size_t peers) {
    ReduceLab lab(small_job(allreduce(peers, "dense", {"exchange.algorithm=halving_doubling"})), 100,
                  normal());
    lab.round();
    return lab.messages();
  };
  CHECK(messages(8) == 8 * 2 * 3);
  CHECK(messages(16) == 16 * 2 * 4);
  CHECK(messages(11) == 8 * 2 * 3 + 3 * 2);
}

TEST_CASE("compressed all-reduce keeps all mass for 2 to 17 peers and uneven slices") {
  for (std::size_t peers = 2; peers <= 17; ++peers)
    for (const char* codec : {"onebit", "qsgd:bits=4,norm=max", "topk:density=0.1"})
      for (const std::size_t n : {5U, 100U, 777U}) {
        INFO(peers << " peers, " << codec << ", " << n << " entries");
        ReduceLab lab(with_batches(small_job(allreduce(peers, codec, {"exchange.parcel=500"})),
                                   different_batches(peers)),
                      n, normal(), peers);
        for (Round t = 0; t < 5; ++t) lab.round();
        CHECK(lab.identical());
        // What was given is what came out, what the senders kept (by their shares) and what the owners kept.
        std::vector<double> x = sums(lab, n, 5);
        for (PeerId p = 0; p < peers; ++p) {
          const auto sender = lab.unsent(p, 0), owner = lab.unsent(p, 1);
          for (std::size_t i = 0; i < n; ++i)
            x[i] += lab.share(p) * static_cast<double>(sender[i]) + static_cast<double>(owner[i]);
        }
        CHECK(worst(x, lab.x(0)) < 1e-4);
      }
}

TEST_CASE("the cheaper algorithm is chosen by size and by what is known of the links") {
  const Links wan{0.01, 1e8};
  const auto cost = [](std::size_t peers, const Links& links, const Settings& more = {}) {
    return make_plan(with_links(small_job(allreduce(peers, "dense", more)), links), 0).allreduce;
  };
  // 2·7·10 ms against 2·3·10 ms, and 2·7/8 vectors over the links either way.
  CHECK(cost(8, wan).ring.seconds(0) == Approx(0.14));
  CHECK(cost(8, wan).halving.seconds(0) == Approx(0.06));
  CHECK(cost(8, wan).ring.per_entry_s == Approx(1.75 * 32 / 1e8));
  constexpr double kMemory = 2e-9;  // of an entry, more than the ring
  CHECK(cost(8, wan).halving.per_entry_s == Approx(1.75 * 32 / 1e8 + kMemory));
  CHECK(cost(8, wan).use_halving_doubling(static_cast<std::size_t>(0.99 * 0.08 / kMemory)));
  CHECK_FALSE(cost(8, wan).use_halving_doubling(static_cast<std::size_t>(1.01 * 0.08 / kMemory)));
  // Folded: 2·2 + 2 messages against 10, and 1.5 + 2 vectors against 5/3.
  const AllreduceCost six = cost(6, wan);
  CHECK(six.halving.seconds(0) == Approx(0.06));
  const double even = 0.04 / ((3.5 - 5.0 / 3) * 32 / 1e8 + kMemory);
  CHECK(six.use_halving_doubling(static_cast<std::size_t>(0.99 * even)));
  CHECK_FALSE(six.use_halving_doubling(static_cast<std::size_t>(1.01 * even)));
  CHECK_FALSE(cost(2, wan).use_halving_doubling(10));  // the same messages: the ring
  CHECK_FALSE(cost(8, wan, Settings{"exchange.algorithm=ring"}).use_halving_doubling(10));
  CHECK_FALSE(cost(8, wan, Settings{"graph.kind=ring"}).use_halving_doubling(10));
  CHECK(cost(6, wan, Settings{"exchange.algorithm=halving_doubling"}).use_halving_doubling(1 << 30));
  CHECK(cost(8, wan, Settings{"graph.kind=hypercube"}).use_halving_doubling(1 << 30));
}

TEST_CASE("the algorithm of a real run does not depend on the simulated network") {
  const auto algorithms = [](const Settings& more) {
    return prepare(small_job(allreduce(6, "dense", Settings{"exchange.parcel=500"} + more))).hello.allreduce;
  };
  const std::string usual = algorithms({});
  CHECK(usual.starts_with("halving_doubling 0"));  // below 33 000 entries at 1 Gbit/s and 0.5 ms
  CHECK(algorithms({"sim.latency=0", "sim.bandwidth=1mbit"}) == usual);
  CHECK(algorithms({"exchange.algorithm=ring"}).starts_with("ring 0"));
  CHECK(algorithms({"exchange.parcel=16", "data.features=100"}).starts_with("halving_doubling 0-"));
  CHECK(algorithms({"exchange.method=dpsgd"}).empty());
}

TEST_CASE("the parcels of a layer go the way that is the cheaper for all of it") {
  const AllreduceCost cost{{.latency_s = 6, .per_entry_s = 1}, {.latency_s = 4, .per_entry_s = 1.01}};
  REQUIRE(cost.use_halving_doubling(199));
  REQUIRE_FALSE(cost.use_halving_doubling(201));
  const std::vector<Parcel> parcels{{0, {0, 150}}, {1, {160, 150}}, {1, {320, 60}}, {2, {400, 1}}};
  CHECK(halving_parcels(cost, parcels) == std::vector<bool>{true, false, false, true});
}

TEST_CASE("a dense all-reduce cuts layers so that a peer's slice of a parcel is a few frames") {
  const auto largest = [](std::size_t peers, const char* codec, const Settings& more = {}) {
    const Settings settings{"model.kind=quadratic", "data.features=1000000", "data.rows=64",
                            "data.test_rows=1",     "optimizer.batch=1",     "optimizer.learning_rate=0.01"};
    const auto plan = prepare(small_job(allreduce(peers, codec, settings + more))).plan;
    std::size_t most = 0;
    for (const Parcel& p : plan->parcels) most = std::max(most, p.range.size);
    return most;
  };
  CHECK(largest(4, "dense") == 500000);
  CHECK(largest(2, "dense") == 250000);
  CHECK(largest(4, "dense", {"exchange.parcel=50000"}) == 50000);
  CHECK(largest(4, "onebit") == 1000000);
}

TEST_CASE("all-reduce of signs is a vote in which the owner of a slice has one voice too") {
  const std::vector<float> pulls{10, -10, -11};
  for (const std::size_t n : {1U, 9U, 100U}) {
    ReduceLab lab(small_job(allreduce(3, "sign_vote")), n,
                  [&](PeerId p, Round, std::size_t) { return pulls[p]; });
    lab.round();
    for (PeerId p = 0; p < 3; ++p) CHECK(lab.x(p) == std::vector<float>(n, 1.0f));  // against the vote, minus
  }
}

TEST_CASE("in simulation the chosen algorithm is the faster one") {
  const auto seconds = [](std::size_t peers, std::size_t n, const char* algorithm, const Links& links) {
    return seconds_of_round(peers, n, links, Settings{std::string("exchange.algorithm=") + algorithm});
  };
  // The hello's length shifts the first round's start, and so the rounding of differences of times.
  const auto same = [](double s) { return Approx(s).epsilon(1e-12); };
  const Links wan{0.01, 1e8};
  for (const std::size_t peers : {6U, 8U}) {
    INFO(peers << " peers");
    const double ring = seconds(peers, 1000, "ring", wan),
                 halving = seconds(peers, 1000, "halving_doubling", wan);
    CHECK(halving < 0.75 * ring);
    CHECK(seconds(peers, 1000, "auto", wan) == same(halving));
  }
  const Links slow{1e-4, 1e7};
  const double ring = seconds(6, 20000, "ring", slow), halving = seconds(6, 20000, "halving_doubling", slow);
  CHECK(ring < 0.75 * halving);
  CHECK(seconds(6, 20000, "auto", slow) == same(ring));
}
