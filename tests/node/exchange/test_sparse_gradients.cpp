// Momentum correction, clipping and densities by epoch and layer, against their formulas written plainly.
#include <numeric>

#include "gossamer_test/catch.h"
#include "reduce_lab.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;
using gossamer::test::says_if_any;

namespace {

using Vector = std::vector<float>;

Settings sparse(const std::string& method, const std::string& codec, const Settings& more = {}) {
  return Settings{"graph.kind=full", "exchange.method=" + method, "exchange.codec=" + codec,
                  "optimizer.kind=sgd", "optimizer.learning_rate=1"} +
         more;
}

std::string refusal_before_the_run(const Settings& settings) {
  return refusal_of([&] { prepare(small_job(settings)); });
}

/// u ← m·u + g; v ← v + u; the k largest of v are sent, and u and v are 0 there.
struct PlainMomentum {
  Vector u, v;
  Vector send(float m, const Vector& g, std::size_t k) {
    u.resize(g.size());
    v.resize(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) v[i] += u[i] = m * u[i] + g[i];
    std::vector<std::size_t> order(g.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return std::abs(v[a]) > std::abs(v[b]); });
    Vector sent(g.size());
    for (std::size_t j = 0; j < k; ++j) std::swap(sent[order[j]], v[order[j]]), u[order[j]] = 0;
    return sent;
  }
};

}  // namespace

TEST_CASE("momentum correction sends what its formula says") {
  constexpr std::size_t kEntries = 120, kKept = 12;
  const Settings settings{"peers=3", "exchange.momentum_correction=0.9"};
  const Job job = with_batches(small_job(sparse("topk_allgather", "topk:density=0.1", settings)), {4, 9, 2});
  ReduceLab lab(job, kEntries, normal());
  std::vector<PlainMomentum> plain(3);
  Vector x(kEntries);
  for (Round t = 0; t < 8; ++t) {
    lab.round();
    Vector sum(kEntries);
    for (PeerId p = 0; p < 3; ++p) {
      Vector g(kEntries);
      for (std::size_t i = 0; i < kEntries; ++i) g[i] = normal()(p, t, i);
      const Vector sent = plain[p].send(0.9f, g, kKept);
      for (std::size_t i = 0; i < kEntries; ++i) sum[i] += static_cast<float>(lab.share(p)) * sent[i];
    }
    for (std::size_t i = 0; i < kEntries; ++i) x[i] -= sum[i];
  }
  CHECK(largest_difference(lab.x(0), x) < 1e-6);
  CHECK(lab.identical());
  for (PeerId p = 0; p < 3; ++p) CHECK(largest_difference(lab.unsent(p), plain[p].v) < 1e-6);
}

TEST_CASE("layers that go dense have the optimiser's momentum under correction") {
  // Nothing is sparse in the third: the momentum of the mean is the mean of the momenta.
  const Settings dense{"exchange.dense_below=100000", "model.kind=mlp", "optimizer.learning_rate=0.1"};
  const auto end = [&](const Settings& settings) { return Run(small_job(settings)).go().parameters(1); };
  const Vector momentum = end(
      sparse("allreduce", "dense", dense + Settings{"optimizer.kind=momentum", "optimizer.momentum=0.8"}));
  const Vector none = end(sparse("allreduce", "dense", dense));
  CHECK(largest_difference(none, momentum) > 0.02);
  for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
    INFO(method);
    const Settings corrected = sparse(method, "topk", dense + Settings{"exchange.momentum_correction=0.8"});
    CHECK(largest_difference(end(corrected), momentum) < 1e-5);
  }
}

TEST_CASE("the only peer left goes on by its velocity under momentum correction") {
  const Settings alone{"peers=1", "optimizer.learning_rate=0.1"};
  const auto end = [&](const Settings& settings) { return Run(small_job(settings)).go().parameters(0); };
  const Vector momentum = end(
      sparse("allreduce", "dense", alone + Settings{"optimizer.kind=momentum", "optimizer.momentum=0.8"}));
  for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
    INFO(method);
    CHECK(largest_difference(
              end(sparse(method, "topk:density=0.1", alone + Settings{"exchange.momentum_correction=0.8"})),
              momentum) < 1e-5);
  }
}

TEST_CASE("momentum correction comes near the optimum under every sparse full reduce") {
  // Not to it where peers are as heterogeneous as here: masking cuts short the momentum of whoever sends an
  // entry often.
  const Settings problem{"peers=6",           "model.kind=quadratic",         "data.rows=48",
                         "optimizer.batch=8", "optimizer.learning_rate=0.04", "optimizer.schedule=cosine",
                         "run.rounds=4000"};
  const Vector optimum = Run(small_job(sparse("allreduce", "dense", problem))).go().parameters(0);
  for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
    INFO(method);
    const Settings corrected{"exchange.momentum_correction=0.8", "exchange.clip=50"};
    Run run(small_job(sparse(method, "topk:density=0.3", problem + corrected)));
    run.go();
    CHECK(run.peers_identical());
    CHECK(largest_difference(run.simulation.parameters(0), optimum) < 0.3);
    CHECK(largest_difference(run.prepared.initial, optimum) > 1);
  }
}

TEST_CASE("a layer's gradient is clipped as one, by its share of the sum") {
  constexpr std::size_t kEntries = 100;
  constexpr double kClip = 3;
  for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
    const Settings settings = sparse(method, "topk:density=1", {"exchange.clip=3", "exchange.parcel=32"});
    const Job job = with_batches(small_job(settings), {1, 2, 3, 2});
    const GradientAt growing = [](PeerId p, Round, std::size_t i) {
      return static_cast<float>(p + 1) * (i % 2 == 0 ? 0.1f : -0.05f);
    };
    ReduceLab lab(job, kEntries, growing);
    lab.round();
    std::vector<double> expected(kEntries);
    std::size_t clipped = 0;
    for (PeerId p = 0; p < 4; ++p) {
      double squares = 0;
      for (std::size_t i = 0; i < kEntries; ++i)
        squares += std::pow(lab.share(p) * static_cast<double>(growing(p, 0, i)), 2);
      const double factor = std::min(1.0, kClip / 2 / std::sqrt(squares));
      clipped += factor < 1;
      for (std::size_t i = 0; i < kEntries; ++i) expected[i] -= factor * lab.share(p) * growing(p, 0, i);
    }
    INFO(method << ": " << clipped << " peers clip");
    double worst = 0;
    for (std::size_t i = 0; i < kEntries; ++i)
      worst = std::max(worst, std::abs(expected[i] - static_cast<double>(lab.x(0)[i])));
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("the density of a round is that of its epoch and layer") {
  ExchangeSettings exchange;
  exchange.codec = compress::make_codec("topk:density=0.001,select=ldte_bs")->spec();
  exchange.layer_density = {{"fc2", 0.5}, {"out*", 0.01}};
  const std::vector<optim::Layer> layers{
      {"fc1", 0, 50000, {}}, {"fc2", 50000, 20000, {}}, {"output", 80000, 20000, {}}, {"last", 0, 100, {}}};
  const auto density = [&](Round round, std::size_t layer) {
    CodecSchedule codecs(exchange, layers, 10);
    return density_of(codecs.at(round, layer).spec()).value_or(-1);
  };
  CHECK(density(0, 0) == 0.001);
  CHECK(density(0, 1) == 0.5);
  CHECK(density(0, 2) == 0.01);
  CHECK(density(0, 3) == -1);  // too small: dense

  exchange.density_warmup.reset();
  const std::vector<double> usual{0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001};
  for (std::size_t epoch = 0; epoch < usual.size(); ++epoch) {
    CHECK(density(epoch * 10, 0) == usual[epoch]);
    CHECK(density(epoch * 10 + 9, 0) == usual[epoch]);
    CHECK(density(epoch * 10, 1) == 0.5);
  }
  exchange.density_warmup = {0.25, 0.004};
  CHECK(density(9, 0) == 0.25);
  CHECK(density(19, 0) == 0.004);
  CHECK(density(19, 2) == 0.01);
  CHECK(density(20, 0) == 0.001);

  CodecSchedule codecs(exchange, layers, 10);
  CHECK(says(codecs.at(20, 0).spec(), "select=ldte_bs"));
  CHECK(&codecs.at(20, 0) == &codecs.at(33, 0));
}

TEST_CASE("a run warms up: the first epoch sends the most") {
  const auto bytes = [](const Settings& more) {
    Run run(small_job(sparse("gtopk", "topk:density=0.02", more + Settings{"run.rounds=32"})));
    run.go();
    return run.result.peers[1].traffic.data_bytes_out;
  };
  const auto plain = bytes({}), warm = bytes({"exchange.density_warmup=on"}),
             two = bytes({"exchange.density_warmup=[1, 1]"}),
             layer = bytes({"exchange.layer_density=[\"*=1\"]"});
  CHECK(plain < warm);
  CHECK(warm < two);
  CHECK(two == layer);  // 32 rounds are two epochs
}

TEST_CASE("keys of sparse gradients are refused where nothing uses them") {
  const Settings momentum{"exchange.momentum_correction=0.9"}, clip{"exchange.clip=1"},
      warm{"exchange.density_warmup=on"}, layer{"exchange.layer_density=[\"*=0.5\"]"};
  for (const Settings& key : {momentum, clip, warm, layer}) {
    for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
      CHECK(refusal_before_the_run(sparse(method, "topk", key)).empty());
      if (std::string(method) != "gtopk") CHECK(refusal_before_the_run(sparse(method, "randk", key)).empty());
    }
    CHECK(says(refusal_before_the_run(sparse("choco", "topk", key)), "method 'choco' sends none such"));
    CHECK(says(refusal_before_the_run(sparse("broadcast", "qsgd", key)),
               "use method 'topk_allgather' or 'gtopk'"));
    CHECK(says(refusal_before_the_run(sparse("allreduce", "onebit", key)), "use codec 'topk'"));
    CHECK(says(refusal_before_the_run(sparse("allreduce", "dense", key)), "is not sparse"));
  }
  CHECK(refusal_before_the_run(sparse("allreduce", "threshold", momentum)).empty());
  CHECK(says(refusal_before_the_run(sparse("allreduce", "threshold", warm)), "codec with a density"));
  CHECK(says(refusal_before_the_run(sparse("gtopk", "topk", momentum + Settings{"optimizer.kind=momentum"})),
             "optimizer.kind 'sgd'"));
  for (const Settings& early :
       {Settings{"exchange.backup=1"}, {"run.straggler=without", "exchange.staleness=8"}}) {
    const auto said = [&](const Settings& key) {
      return refusal_before_the_run(sparse("topk_allgather", "topk", key + early));
    };
    for (const Settings& key : {momentum, clip})
      CHECK(says(said(key), "needs rounds that wait for all gradients"));
    for (const Settings& key : {warm, layer}) CHECK(says_if_any(said(key), ""));
  }
  const std::string unknown = refusal_before_the_run(
      sparse("gtopk", "topk", {"model.kind=mlp", "exchange.layer_density=[\"fc7=0.5\"]"}));
  CHECK(says(unknown, "names layer 'fc7'"));
  CHECK(says(unknown, "did you mean 'fc1'?"));
}

TEST_CASE("momentum on gradients of which hardly any are sent is accepted with a warning") {
  const auto warning = [](const std::string& method, const std::string& codec, const Settings& more) {
    const Prepared p = prepare(small_job(sparse(method, codec, Settings{"optimizer.kind=momentum"} + more)));
    return momentum_warning(p.job, *p.plan);
  };
  for (const char* method : {"topk_allgather", "allreduce", "gtopk"}) {
    INFO(method);
    CHECK(says(warning(method, "topk:density=0.0001", {}), "about 10000 rounds late"));
    CHECK(says(warning(method, "topk:density=0.0001", {}), "a density of at least 0.0005, or"));
    for (const Settings& more : {Settings{"optimizer.kind=sgd"},
                                 {"optimizer.kind=adam"},
                                 {"exchange.dense_below=1000"},
                                 {"peers=1"}})
      CHECK(warning(method, "topk:density=0.0001", more).empty());
    CHECK(warning(method, "topk:density=0.0005", {}).empty());
  }
}
