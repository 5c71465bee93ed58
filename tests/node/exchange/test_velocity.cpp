// Full reduces under codes of about one bit: what is coded is the optimiser's velocity, and peers that step
// by momentum learn from it as they do from dense sums.
#include <filesystem>

#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "reduce_lab.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr const char* kMethods[] = {"allreduce", "broadcast", "topk_allgather"};
constexpr const char* kCoarse[] = {"onebit", "onebit_two", "onebit_scaled",
                                   "onebit_scaled:lambda=0.8,bound_abs=5", "intq:bits=2"};

Settings coded(const std::string& method, const std::string& codec, const std::string& optimizer,
               const Settings& more = {}) {
  return Settings{"graph.kind=full",         "exchange.method=" + method,
                  "exchange.codec=" + codec, "optimizer.kind=" + optimizer,
                  "optimizer.momentum=0.9",  "optimizer.learning_rate=1"} +
         more;
}

/// x after `rounds` rounds of broadcast with momentum 0.9 and rate 1, written plainly.
std::vector<float> plain_broadcast(const ReduceLab& lab, const std::string& spec, std::size_t n,
                                   Round rounds) {
  const auto codec = compress::make_codec(spec);
  compress::Workspace workspace;
  std::vector<compress::FeedbackState> residual(lab.peers());
  std::vector<float> decoded(n), velocity(n), x(n);
  std::vector<std::byte> bytes(codec->max_bytes(n));
  for (Round t = 0; t < rounds; ++t) {
    std::vector<float> next(n);
    for (PeerId p = 0; p < lab.peers(); ++p) {
      std::vector<float> u(n);
      for (std::size_t i = 0; i < n; ++i) u[i] = normal()(p, t, i) + 0.9f * decoded[i];
      const std::size_t size = codec->encode_feedback(u, residual[p], {}, workspace, bytes);
      compress::decode_add(std::span(bytes).first(size), static_cast<float>(lab.share(p)), next);
    }
    for (std::size_t i = 0; i < n; ++i) {
      velocity[i] = 0.9f * velocity[i] + (next[i] - 0.9f * decoded[i]);
      x[i] -= velocity[i];
    }
    decoded = next;
  }
  return x;
}

/// Test accuracy of a small mlp after two passes over 12 000 images.
double accuracy(const Settings& settings) {
  Run run(small_job(Settings{"model.kind=mlp", "model.hidden=[64]", "data.format=idx",
                             "data.path=/usr/share/datasets/fashion-mnist", "data.mean=0.286",
                             "data.scale=0.353", "data.limit=12000", "optimizer.schedule=cosine",
                             "optimizer.learning_rate=0.05", "optimizer.batch=32", "run.rounds=188"} +
                    settings));
  run.go();
  if (!run.all(Outcome::finished)) return 0;
  const auto objective = make_model(run.prepared);
  return optim::evaluate(*objective, run.simulation.parameters(0), *run.prepared.data.test).accuracy();
}

}  // namespace

TEST_CASE("a broadcast of one bit carries the velocity, as its formula says") {
  constexpr std::size_t kEntries = 700;
  constexpr Round kRounds = 12;
  for (const char* method : {"broadcast", "topk_allgather"}) {
    const Job job = with_batches(small_job(coded(method, "onebit", "momentum", {"peers=3"})), {4, 9, 2});
    ReduceLab lab(job, kEntries, normal());
    for (Round t = 0; t < kRounds; ++t) lab.round();
    CHECK(relative_difference(lab.x(0), plain_broadcast(lab, "onebit", kEntries, kRounds)) < 1e-5);
    CHECK(lab.identical());
  }
}

TEST_CASE("peers that decode velocities keep the same bits under every coarse code and optimiser") {
  for (const char* method : kMethods)
    for (const char* codec : kCoarse)
      for (const std::string optimizer : {"sgd", "momentum", "nesterov", "adam"})
        for (const std::size_t peers : {2U, 5U}) {
          INFO(method << ", " << codec << ", " << optimizer << ", " << peers << " peers");
          Settings more{"peers=" + std::to_string(peers), "exchange.parcel=128"};
          if (optimizer == "adam") more = more + Settings{"exchange.dense_rounds=2"};
          ReduceLab lab(small_job(coded(method, codec, optimizer, more)), 300, normal());
          for (Round t = 0; t < 6; ++t) lab.round();
          CHECK(lab.identical());
          for (const float x : lab.x(0)) REQUIRE(std::isfinite(x));
        }
}

TEST_CASE("the first dense_rounds go dense, and what follows is coded") {
  constexpr std::size_t kEntries = 300;
  for (const char* method : kMethods) {
    INFO(method);
    ReduceLab coarse(small_job(coded(method, "onebit", "momentum", {"exchange.dense_rounds=3"})), kEntries,
                     normal());
    ReduceLab dense(small_job(coded("allreduce", "dense", "momentum")), kEntries, normal());
    for (Round t = 0; t < 3; ++t) coarse.round(), dense.round();
    CHECK(relative_difference(coarse.x(0), dense.x(0)) < 1e-5);
    coarse.round(), dense.round();
    CHECK(relative_difference(coarse.x(0), dense.x(0)) > 1e-2);
  }
}

TEST_CASE("one bit with momentum learns in a full reduce as dense sums do") {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GOSSAMER_SKIP("no /usr/share/datasets/fashion-mnist (Debian package dataset-fashion-mnist)");
  gossamer::test::Drawn drawn(3);
  for (const std::string optimizer : {"momentum", "nesterov", "adam"}) {
    if (!drawn()) continue;
    const bool adam = optimizer == "adam";
    const Settings rate{adam ? "optimizer.learning_rate=0.001" : "optimizer.learning_rate=0.05"};
    const Settings warm{adam ? "exchange.dense_rounds=9" : "exchange.dense_rounds=0"};
    const double dense = accuracy(coded("allreduce", "dense", optimizer, rate));
    const auto near = [&](const char* method, const char* codec) {
      INFO(method << ", " << codec << ", " << optimizer << ", dense " << dense);
      CHECK(accuracy(coded(method, codec, optimizer, rate + warm)) > dense - 0.03);
    };
    near("allreduce", "onebit");
    if (adam) continue;
    near("broadcast", "onebit");
    near("allreduce", optimizer == "momentum" ? "onebit_scaled" : "intq:bits=2");
  }
}

TEST_CASE("what a coarse full reduce cannot do is refused with what can") {
  const auto refused = [](const std::string& method, const std::string& codec, const std::string& optimizer,
                          const Settings& more = {}) {
    return refusal(coded(method, codec, optimizer, more));
  };
  const std::string adam = refused("allreduce", "onebit", "adam");
  CHECK(says(adam, "exchange.dense_rounds to about 5 % of the rounds"));
  CHECK(says(adam, "optimizer.kind 'momentum'"));
  CHECK(says(refused("broadcast", "onebit_scaled", "quasi_global"), "use 'momentum', or method 'choco'"));
  CHECK(says(refused("topk_allgather", "onebit", "momentum", {"exchange.backup=1"}), "use backup = 0"));
  CHECK(says(refused("broadcast", "onebit", "sgd", {"exchange.send_momentum=0.9"}), "use 'qsgd'"));
  CHECK(says(refused("broadcast", "onebit", "sgd", {"exchange.aggregate=krum:f=1", "peers=5"}),
             "needs an unbiased codec"));
  CHECK(says(refused("sparse_loco", "onebit", "momentum", {"exchange.dense_rounds=5"}), "deep_squeeze"));
  CHECK(says(refused("allreduce", "dense", "momentum", {"exchange.dense_rounds=5"}), "leave it out"));
  CHECK(refused("broadcast", "onebit", "sgd", {"exchange.backup=1"}).empty());
  CHECK(refused("allreduce", "qsgd:bits=4", "adam").empty());
}
