// gTop-k against the same recursion written over all peers at once, and what becomes of what it drops.
#include <bit>
#include <map>
#include <numeric>

#include "gossamer_test/catch.h"
#include "reduce_lab.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

using Vector = std::vector<float>;

Settings gtopk(std::size_t peers, const std::string& codec, const Settings& more = {}) {
  return Settings{"peers=" + std::to_string(peers),
                  "graph.kind=full",
                  "exchange.method=gtopk",
                  "exchange.codec=" + codec,
                  "optimizer.kind=sgd",
                  "optimizer.learning_rate=1",
                  "optimizer.batch=4"} +
         more;
}

/// v's k entries of largest magnitude, ties to the lowest index; the others 0.
Vector largest(const Vector& v, std::size_t k) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return std::abs(v[a]) > std::abs(v[b]); });
  Vector out(v.size());
  for (std::size_t i = 0; i < std::min(k, v.size()); ++i) out[order[i]] = v[order[i]];
  return out;
}
void add(Vector& to, const Vector& v, float factor = 1) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * v[i];
}

/// The recursion on all peers' vectors [first, first + width): halves by themselves, then one merge at first.
Vector reduced(const std::vector<Vector>& v, std::vector<Vector>& residual, std::size_t k, std::size_t first,
               std::size_t width) {
  if (width == 1) {
    Vector sent = largest(v[first], k);
    residual[first] = v[first];
    add(residual[first], sent, -1);
    return sent;
  }
  Vector sum = reduced(v, residual, k, first, width / 2);
  if (first + width / 2 >= v.size()) return sum;
  add(sum, reduced(v, residual, k, first + width / 2, width / 2));
  Vector sent = largest(sum, k);
  add(sum, sent, -1);
  add(residual[first], sum);
  return sent;
}

/// x of the plain recursion after so many rounds, and what is left over.
struct Plain {
  Plain(std::size_t peers, std::size_t n, std::size_t k, Round rounds, const ReduceLab& lab,
        const GradientAt& at)
      : x(n), residual(peers, Vector(n)) {
    for (Round t = 0; t < rounds; ++t) {
      std::vector<Vector> v(peers, Vector(n));
      for (PeerId p = 0; p < peers; ++p)
        for (std::size_t i = 0; i < n; ++i)
          v[p][i] = static_cast<float>(lab.share(p)) * at(p, t, i) + residual[p][i];
      std::size_t width = 1;
      while (width < peers) width *= 2;
      add(x, reduced(v, residual, k, 0, width), -1);
    }
  }
  Vector x;
  std::vector<Vector> residual;
};

/// Where all shares are the same what is unsent is weighed when it is in a result.
double weight_of_unsent(const ReduceLab& lab, std::size_t peers) {
  for (PeerId p = 1; p < peers; ++p)
    if (lab.share(p) != lab.share(0)) return 1;
  return lab.share(0);
}

}  // namespace

TEST_CASE("gtopk equals the recursive selection computed centrally, for any number of peers") {
  constexpr std::size_t kEntries = 203;
  for (const std::size_t peers : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 17U})
    for (const std::size_t k : {1U, 10U, 203U}) {
      INFO(peers << " peers, k = " << k);
      const double density = (static_cast<double>(k) - 0.5) / kEntries;
      const Settings settings = gtopk(peers, "topk:select=exact,density=" + std::to_string(density));
      const Job job = with_batches(small_job(settings), different_batches(peers));
      ReduceLab lab(job, kEntries, normal(), peers);
      for (Round t = 0; t < 6; ++t) lab.round();
      const Plain plain(peers, kEntries, k, 6, lab, normal());
      CHECK(Run::same_bits(lab.x(0), plain.x));
      CHECK(lab.identical());
      for (PeerId p = 0; p < peers; ++p) CHECK(largest_difference(lab.unsent(p), plain.residual[p]) == 0);
      const auto steps = static_cast<std::size_t>(std::countr_zero(peers));
      CHECK(lab.messages() == 6 * (std::has_single_bit(peers) ? peers * steps : 2 * (peers - 1)));
    }
}

TEST_CASE("gtopk goes up and down its tree at once where all have the edges for it, to the same bits") {
  constexpr std::size_t kEntries = 120;
  const auto lab_of = [&](const std::string& codec, const Settings& more) {
    auto lab = std::make_unique<ReduceLab>(small_job(gtopk(8, codec, more)), kEntries, normal());
    for (Round t = 0; t < 5; ++t) lab->round();
    REQUIRE(lab->identical());
    return lab;
  };
  const std::string tree = "graph.edges=[[0,1],[0,2],[0,4],[2,3],[4,5],[4,6],[6,7]]";
  for (const char* values : {"fp32", "fp16", "int8", "sign"}) {
    INFO(values);
    const std::string codec = std::string("topk:density=0.05,values=") + values;
    const auto both = lab_of(codec, {}),
               one = lab_of(codec, {"graph.kind=edges", tree, "graph.directed=false"}),
               cube = lab_of(codec, {"graph.kind=hypercube"});
    CHECK(both->messages() == 5 * 8 * 3);
    CHECK(cube->messages() == 5 * 8 * 3);
    CHECK(one->messages() == 5 * 2 * 7);
    CHECK(Run::same_bits(both->x(0), one->x(0)));
    CHECK(Run::same_bits(both->x(0), cube->x(0)));
    for (PeerId p = 0; p < 8; ++p) CHECK(Run::same_bits(both->unsent(p), one->unsent(p)));
  }
  CHECK(lab_of("topk:density=0.05,select=reuse", {})->messages() ==
        5 * 2 * 7);  // each remembers its own thresholds
}

TEST_CASE("what gtopk drops is kept: residuals and results sum to the gradients exactly") {
  constexpr std::size_t kEntries = 150;
  const GradientAt small_integers = [](PeerId p, Round t, std::size_t i) {
    return static_cast<float>(static_cast<int>((p * 31 + t * 17 + i * i * 7 + p * i) % 41) - 20);
  };
  for (const std::size_t peers : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U})
    for (const char* codec : {"topk:density=0.02", "topk:density=0.1,select=ldte_bs",
                              "topk:density=0.05,select=reuse", "topk:density=0.3,select=sampled"}) {
      INFO(peers << " peers, " << codec);
      // Shares with a power of two below, so that every sum is exact.
      std::size_t rows = 1;
      while (rows < peers) rows *= 2;
      std::vector<std::size_t> batch(peers, 1);
      batch[0] += rows - peers;
      ReduceLab lab(with_batches(small_job(gtopk(peers, codec)), batch), kEntries, small_integers);
      std::vector<double> inputs(kEntries);
      for (Round t = 0; t < 20; ++t) {
        lab.round();
        for (PeerId p = 0; p < peers; ++p)
          for (std::size_t i = 0; i < kEntries; ++i) inputs[i] += lab.share(p) * small_integers(p, t, i);
      }
      REQUIRE(lab.identical());
      std::vector<double> outputs(kEntries);
      const double weight = weight_of_unsent(lab, peers);
      double left = 0;
      for (std::size_t i = 0; i < kEntries; ++i) outputs[i] = -lab.x(0)[i];
      for (PeerId p = 0; p < peers; ++p) {
        const Vector e = lab.unsent(p);
        for (std::size_t i = 0; i < kEntries; ++i) outputs[i] += weight * e[i], left += std::abs(e[i]);
      }
      CHECK(outputs == inputs);
      CHECK(left > 0);
    }
}

TEST_CASE("gtopk keeps its mass under values that are rounded when sent") {
  constexpr std::size_t kEntries = 300;
  for (const char* values : {"fp16", "int8", "sign"}) {
    for (const std::size_t peers : {4U, 5U}) {
      INFO(values << ", " << peers << " peers");
      const Settings settings = gtopk(peers, std::string("topk:density=0.05,values=") + values);
      ReduceLab lab(small_job(settings), kEntries, normal());
      std::vector<double> balance(kEntries);
      for (Round t = 0; t < 10; ++t) {
        lab.round();
        for (PeerId p = 0; p < peers; ++p)
          for (std::size_t i = 0; i < kEntries; ++i) balance[i] += lab.share(p) * normal()(p, t, i);
      }
      for (std::size_t i = 0; i < kEntries; ++i) balance[i] += lab.x(0)[i];
      for (PeerId p = 0; p < peers; ++p)
        for (std::size_t i = 0; i < kEntries; ++i)
          balance[i] -= weight_of_unsent(lab, peers) * lab.unsent(p)[i];
      for (const double b : balance) CHECK(std::abs(b) < 1e-5);
      CHECK(lab.identical());
    }
  }
}

TEST_CASE("gtopk sums small layers dense, by parcels of any size, and leaves all peers identical") {
  const Settings settings =
      Settings{"model.kind=mlp", "exchange.parcel=32", "exchange.dense_below=50", "run.rounds=30"};
  for (const std::size_t peers : {1U, 2U, 5U, 8U}) {
    INFO(peers << " peers");
    Run run(small_job(gtopk(peers, "topk:density=0.1") + settings + Settings{"optimizer.learning_rate=0.2"}));
    run.go();
    CHECK(run.all(Outcome::finished));
    CHECK(run.peers_identical());
    CHECK(largest_difference(run.simulation.parameters(0), run.prepared.initial) > 0.05);
    for (const auto& l : run.prepared.layers)
      if (l.size < 50 && peers > 1)
        for (std::size_t i = 0; i < l.size; ++i) CHECK(run.simulation.unsent(1, 0)[l.offset + i] == 0);
  }
}

TEST_CASE("gtopk reaches the optimum of heterogeneous peers, and finishes under loss and reordering") {
  const auto problem = [](const std::string& method, const std::string& codec) {
    return Settings{"peers=6",
                    "graph.kind=full",
                    "model.kind=quadratic",
                    "data.rows=48",
                    "optimizer.batch=8",
                    "optimizer.kind=sgd",
                    "optimizer.learning_rate=0.2",
                    "optimizer.schedule=cosine",
                    "run.rounds=2500",
                    "exchange.method=" + method,
                    "exchange.codec=" + codec};
  };
  Run dense(small_job(problem("allreduce", "dense"))),
      sparse(small_job(problem("gtopk", "topk:density=0.3")));
  dense.go();
  sparse.go();
  CHECK(largest_difference(sparse.simulation.parameters(3), dense.simulation.parameters(3)) < 1e-3);

  const Settings faults{"sim.loss=0.05", "sim.reorder=0.2", "sim.duplicate=0.05", "sim.jitter=1ms"};
  const Settings seven = gtopk(7, "topk:density=0.1") + Settings{"optimizer.learning_rate=0.1"};
  CHECK(digest_of(small_job(seven + faults)) == digest_of(small_job(seven)));
}
