// NoLoCo and SparseLoCo against their formulas; what all methods with outer steps converge to, and that they
// train as well as local_sgd.
#include <tuple>

#include "exchange.h"
#include "gossamer/compress/codec.h"
#include "gossamer_test/catch.h"
#include "own_key.h"
#include "plain_outer.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

Settings of(const std::string& method, const std::string& graph, const std::string& codec) {
  return {"exchange.method=" + method, "graph.kind=" + graph, "exchange.codec=" + codec};
}

/// Kolehmainen et al., with the means of any matrix.
class PlainNoloco final : public PlainOuter {
 public:
  explicit PlainNoloco(const Prepared& prepared)
      : PlainOuter(prepared), momentum_(zeros()), learned_(zeros()) {}

 private:
  void begin(ParcelId p, Round) override {
    for_entries(p, [&](std::size_t i, std::size_t k) { learned_[i][k] = peers_.x[i][k] - outer_[i][k]; });
  }
  void end(ParcelId p, const std::vector<double>& w) override {
    const double alpha = section_.outer_rate.value_or(0.7), beta = section_.outer_momentum.value_or(0.5),
                 gamma = section_.gamma.value_or(beta + 0.1);
    for_entries(p, [&](std::size_t i, std::size_t k) {
      const double apart = mean(w, outer_, i, k) - static_cast<double>(outer_[i][k]);
      momentum_[i][k] = static_cast<float>(beta * static_cast<double>(momentum_[i][k]) +
                                           alpha * mean(w, learned_, i, k) + gamma * apart);
    });
    for_entries(p, [&](std::size_t i, std::size_t k) { outer_[i][k] += momentum_[i][k]; });
  }
  Vectors momentum_, learned_;
};

class PlainSparseLoco final : public PlainOuter {
 public:
  explicit PlainSparseLoco(const Prepared& prepared)
      : PlainOuter(prepared),
        codec_(compress::make_codec(section_.codec)),
        residual_(zeros()),
        sent_(zeros()) {}

 private:
  void begin(ParcelId p, Round round) override {
    const auto decay = static_cast<float>(kFeedbackDecay.of(section_));
    const Range r = parcels_[p].range;
    for_entries(p, [&](std::size_t i, std::size_t k) {
      residual_[i][k] = decay * residual_[i][k] + (outer_[i][k] - peers_.x[i][k]);
      sent_[i][k] = 0;
    });
    for (std::size_t i = 0; i < count(); ++i) {
      std::vector<std::byte> bytes(codec_->max_bytes(r.size));
      const compress::RandomKey key{prepared_.job.run.seed, static_cast<std::uint32_t>(i),
                                    static_cast<std::uint32_t>(r.begin / 16), 2 * round};
      bytes.resize(codec_->encode(std::span(residual_[i]).subspan(r.begin, r.size), key, workspace_, bytes));
      compress::decode_add(bytes, 1, std::span(sent_[i]).subspan(r.begin, r.size));
    }
    for_entries(p, [&](std::size_t i, std::size_t k) { residual_[i][k] -= sent_[i][k]; });
  }
  void end(ParcelId p, const std::vector<double>& w) override {
    const double rate = section_.outer_rate.value_or(1);
    for_entries(p, [&](std::size_t i, std::size_t k) {
      outer_[i][k] -= static_cast<float>(rate * mean(w, sent_, i, k));
    });
  }
  std::unique_ptr<const compress::Codec> codec_;
  compress::Workspace workspace_;
  Vectors residual_, sent_;
};

Settings four_steps(const Settings& more) {
  return Settings{"exchange.local_steps=4", "run.rounds=33"} + more;
}

/// Peers of 8 different rows each look for the mean of all rows: the farthest from it.
double error(const Settings& settings, std::size_t peers = 6) {
  Run run(
      small_job(Settings{"peers=" + std::to_string(peers), "model.kind=quadratic",
                         "data.rows=" + std::to_string(8 * peers), "optimizer.batch=8", "optimizer.kind=sgd",
                         "optimizer.learning_rate=0.05", "optimizer.schedule=cosine",
                         "exchange.local_steps=8", "exchange.dense_below=0", "run.rounds=1600"} +
                settings));
  if (!run.go().all(Outcome::finished)) return INFINITY;
  const auto& data = *run.prepared.data.train;
  std::vector<float> row(data.features()), best(data.features(), 0);
  for (std::uint32_t r = 0; r < data.rows(); ++r) {
    data.gather(std::span(&r, 1), row);
    for (std::size_t k = 0; k < row.size(); ++k) best[k] += row[k] / static_cast<float>(data.rows());
  }
  double worst = 0;
  for (PeerId p = 0; p < peers; ++p)
    worst = std::max(worst, largest_difference(run.simulation.parameters(p).first(best.size()), best));
  return worst;
}

/// Test loss of the peers' mean model: an mlp on blobs that overlap, a shard each.
double trained(const Settings& settings) {
  Run run(small_job(Settings{"peers=4", "model.kind=mlp", "data.separation=0.7", "data.rows=2048",
                             "data.test_rows=512", "optimizer.kind=sgd", "optimizer.learning_rate=0.1",
                             "exchange.local_steps=8", "run.rounds=400", "exchange.dense_below=0"} +
                    settings));
  REQUIRE(run.go().all(Outcome::finished));
  AlignedFloats mean(run.prepared.initial.size(), 0);
  for (PeerId p = 0; p < 4; ++p)
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += run.simulation.parameters(p)[k] / 4;
  return optim::evaluate(*make_model(run.prepared), mean, *run.prepared.data.test).loss();
}

const char* const kSparse = "topk:density=0.2,values=two_bit";

}  // namespace

TEST_CASE("noloco is its formula, for pairs, with one that rests, and for other graphs") {
  for (const char* graph : {"matching", "ring", "full"})
    for (const char* peers : {"peers=4", "peers=5"}) {
      INFO(graph << " " << peers);
      const Settings settings = of("noloco", graph, "dense") + four_steps({peers});
      CHECK(is_formula<PlainNoloco>(settings));
      CHECK(is_formula<PlainNoloco>(settings + streamed()));
      CHECK(is_formula<PlainNoloco>(
          settings + Settings{"exchange.gamma=0.9", "optimizer.kind=adam", "optimizer.learning_rate=0.02"}));
    }
}

TEST_CASE("sparse_loco is its formula") {
  for (const char* codec : {"dense", kSparse, "topk:density=0.05", "onebit_scaled"})
    for (const char* peers : {"peers=4", "peers=1", "peers=5"}) {
      INFO(codec << " " << peers);
      const Settings settings = of("sparse_loco", "full", codec) + four_steps({peers});
      CHECK(is_formula<PlainSparseLoco>(settings));
      CHECK(is_formula<PlainSparseLoco>(settings + streamed() +
                                        Settings{"exchange.feedback_decay=0.5", "exchange.outer_rate=0.8"}));
    }
}

TEST_CASE("with sparse_loco all peers' outer parameters are the same bits") {
  for (const Settings& more : {Settings{}, streamed()}) {
    Run run(small_job(of("sparse_loco", "full", kSparse) + four_steps(more)));
    REQUIRE(run.go().all(Outcome::finished));
    for (PeerId p = 1; p < 4; ++p)
      CHECK(Run::same_bits(run.simulation.slot(p, 2), run.simulation.slot(0, 2)));
  }
  Run closed(small_job(of("sparse_loco", "full", kSparse) + four_steps({"run.rounds=32"})));
  CHECK(closed.go().peers_identical());
}

TEST_CASE("noloco sends one vector a outer round, sparse_loco a few bits of one") {
  const auto bytes = [](const Settings& settings) {
    Run run(small_job(settings + Settings{"run.rounds=64", "data.features=3000"}));
    run.go();
    return static_cast<double>(run.result.peers[0].traffic.data_bytes_out);
  };
  const double every = bytes(of("dpsgd", "matching", "dense"));
  const Settings eight{"exchange.local_steps=8"};
  CHECK(bytes(of("noloco", "matching", "dense") + eight) == Approx(every / 8).epsilon(0.01));
  const double dense = bytes(of("diloco", "full", "dense") + eight);
  CHECK(bytes(of("sparse_loco", "full", "topk:density=0.02,values=two_bit") + eight) < dense / 50);
}

TEST_CASE("outer steps reach the optimum of a convex problem with heterogeneous data") {
  const Settings streamed_too{"exchange.fragments=4", "exchange.outer_delay=3"};
  for (const auto& [method, graph, codec, most] : {std::tuple{"diloco", "full", "dense", 1e-3},
                                                   {"diloco", "full", "qsgd:bits=4", 1e-2},
                                                   {"diloco", "full", "topk:density=0.2", 0.1},
                                                   {"diloco", "ring", "dense", 0.05},
                                                   {"diloco", "matching", "dense", 0.05},
                                                   {"diloco", "base", "dense", 0.05},
                                                   {"noloco", "full", "dense", 1e-3},
                                                   {"noloco", "ring", "dense", 0.05},
                                                   {"noloco", "matching", "dense", 0.05},
                                                   {"sparse_loco", "full", "dense", 1e-3},
                                                   {"sparse_loco", "full", kSparse, 0.1}}) {
    INFO(method << " " << graph << " " << codec);
    Settings settings = of(method, graph, codec);
    if (most == 1e-3) settings.push_back("optimizer.learning_rate=0.2");  // exact at any rate, and soon
    CHECK(error(settings) < most);
    CHECK(error(settings + streamed_too) < most);
  }
}

// On graphs whose weights have negative eigenvalues momentum drives peers apart that solve their own problem
// between outer rounds, unless every peer keeps half of its own.
TEST_CASE("gossip of outer steps bears local problems that are solved between outer rounds") {
  const Settings solved{"exchange.local_steps=64", "optimizer.learning_rate=0.2",
                        "optimizer.schedule=constant", "run.rounds=6400"};
  for (const char* method : {"diloco", "noloco"})
    for (const char* graph : {"ring", "hypercube", "matching"}) {
      INFO(method << " " << graph);
      CHECK(error(of(method, graph, "dense") + solved, 8) < 5);
    }
}

TEST_CASE("noloco converges for consensus rates from 0.15 to 1, odd peers too") {
  for (const std::size_t peers : {6U, 7U})
    for (const char* gamma : {"0.15", "0.3", "0.5", "0.6", "0.8", "1"}) {
      const double e =
          error(of("noloco", "matching", "dense") + Settings{std::string("exchange.gamma=") + gamma}, peers);
      INFO(peers << " peers, gamma " << gamma);
      CHECK(e < 0.1);
    }
}

TEST_CASE("outer steps train as well as local_sgd") {
  const double local = trained(of("local_sgd", "full", "dense"));
  CHECK(local < 0.5);
  for (const auto& [method, graph, codec] : {std::tuple{"diloco", "full", "dense"},
                                             {"diloco", "full", "qsgd:bits=4"},
                                             {"diloco", "ring", "dense"},
                                             {"diloco", "matching", "dense"},
                                             {"noloco", "matching", "dense"},
                                             {"noloco", "ring", "dense"},
                                             {"sparse_loco", "full", kSparse}}) {
    INFO(method << " " << graph << " " << codec << ", local_sgd " << local);
    CHECK(trained(of(method, graph, codec)) < local * 1.1);
    CHECK(trained(of(method, graph, codec) + Settings{"exchange.fragments=4", "exchange.outer_delay=2",
                                                      "exchange.parcel=32"}) < local * 1.1);
  }
}
