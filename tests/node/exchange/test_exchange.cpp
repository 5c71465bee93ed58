// Every method against the same formula written plainly over all peers at once.
#include "gossamer/compress/codec.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

using Matrix = std::vector<double>;  // P × P, row-major
using Vectors = std::vector<AlignedFloats>;

/// Row i: Σ_j W_ij v_j, in double precision.
Vectors mixed(const Matrix& w, const Vectors& v) {
  Vectors out(v.size(), AlignedFloats(v[0].size()));
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t k = 0; k < v[0].size(); ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < v.size(); ++j) sum += w[i * v.size() + j] * static_cast<double>(v[j][k]);
      out[i][k] = static_cast<float>(sum);
    }
  return out;
}

void subtract(Vectors& x, const Vectors& u) {
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < x[i].size(); ++k) x[i][k] -= u[i][k];
}

/// Metropolis weights, from the definition, of a graph given as its edges.
Matrix metropolis(std::size_t peers, const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  std::vector<std::size_t> degree(peers, 0);
  for (const auto& [a, b] : edges) ++degree[a], ++degree[b];
  Matrix w(peers * peers, 0);
  for (const auto& [a, b] : edges)
    w[a * peers + b] = w[b * peers + a] = 1.0 / static_cast<double>(1 + std::max(degree[a], degree[b]));
  for (std::size_t i = 0; i < peers; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < peers; ++j) sum += w[i * peers + j];
    w[i * peers + i] = 1 - sum;
  }
  return w;
}
Matrix ring(std::size_t peers) {
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t i = 0; i < peers; ++i) edges.emplace_back(i, (i + 1) % peers);
  return metropolis(peers, edges);
}
Matrix star(std::size_t peers) {
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t i = 1; i < peers; ++i) edges.emplace_back(0, i);
  return metropolis(peers, edges);
}
/// Round t: i sends to i + 2^(t mod ⌈log₂P⌉), W = ½(I + S).
Matrix one_peer_exponential(std::size_t peers, Round t) {
  std::size_t period = 0;
  while ((std::size_t{1} << period) < peers) ++period;
  Matrix w(peers * peers, 0);
  for (std::size_t i = 0; i < peers; ++i) {
    const std::size_t to = (i + (std::size_t{1} << (t % period))) % peers;
    w[i * peers + i] += 0.5;
    w[to * peers + i] += 0.5;
  }
  return w;
}
Matrix by_samples(const Matrix& w, const std::vector<std::size_t>& batches) {
  const std::size_t peers = batches.size();
  const auto b = [&](std::size_t i) { return static_cast<double>(batches[i]); };
  std::vector<double> sum(peers, 0);
  for (std::size_t i = 0; i < peers; ++i)
    for (std::size_t j = 0; j < peers; ++j) sum[i] += w[i * peers + j] * b(j);
  Matrix out(w.size());
  for (std::size_t i = 0; i < peers; ++i) {
    out[i * peers + i] = 1;
    for (std::size_t j = 0; j < peers; ++j) {
      if (j == i) continue;
      out[i * peers + j] = w[i * peers + j] * b(j) / std::max(sum[i], sum[j]);
      out[i * peers + i] -= out[i * peers + j];
    }
  }
  return out;
}

double farthest(const Run& run, const Vectors& x) {
  double most = 0;
  for (PeerId p = 0; p < x.size(); ++p)
    most = std::max(most, largest_difference(run.simulation.parameters(p), x[p]));
  return most;
}

template <class MatrixOfRound>
void check_dpsgd(Job job, MatrixOfRound&& matrix, bool overlap = false) {
  Run run(std::move(job));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  PlainPeers plain(run.prepared);
  for (Round t = 0; t < run.prepared.rounds; ++t) {
    const Vectors u = plain.steps(t);
    if (!overlap) subtract(plain.x, u);
    plain.x = mixed(matrix(t), plain.x);
    if (overlap) subtract(plain.x, u);
  }
  CHECK(farthest(run, plain.x) < 1e-5);
  CHECK(largest_difference(run.simulation.parameters(0), run.simulation.parameters(1)) > 1e-4);
}

const Settings kDpsgd{"exchange.method=dpsgd", "exchange.codec=dense"};

/// CHOCO on all peers at once; encoded(peer, round, parcel, v) is what arrives of v. Overlapped, the steps
/// are those of the gradients at x before it is mixed, and are taken after that.
template <class Encoded>
Vectors plain_choco(const Prepared& prepared, const Matrix& w, float gamma, Encoded&& encoded) {
  const bool overlap = prepared.job.exchange.overlap;
  PlainPeers plain(prepared);
  Vectors estimates(plain.peers(), prepared.initial);
  const auto parcels = make_parcels(prepared.layers, prepared.job.exchange.parcel);
  for (Round t = 0; t < prepared.rounds; ++t) {
    const Vectors u = plain.steps(t);
    if (!overlap) subtract(plain.x, u);
    for (std::size_t i = 0; i < plain.peers(); ++i)
      for (const Parcel& parcel : parcels) {
        std::vector<float> v(parcel.range.size);
        for (std::size_t k = 0; k < v.size(); ++k)
          v[k] = plain.x[i][parcel.range.begin + k] - estimates[i][parcel.range.begin + k];
        const std::vector<float> q = encoded(i, t, parcel, v);
        for (std::size_t k = 0; k < v.size(); ++k) estimates[i][parcel.range.begin + k] += q[k];
      }
    const Vectors average = mixed(w, estimates);
    for (std::size_t i = 0; i < plain.peers(); ++i)
      for (std::size_t k = 0; k < plain.size(); ++k)
        plain.x[i][k] += gamma * (average[i][k] - estimates[i][k]);
    if (overlap) subtract(plain.x, u);
  }
  return plain.x;
}

/// One process that takes every peer's rows of a round as one batch.
AlignedFloats joined_batches(const Prepared& prepared) {
  PlainPeers plain(prepared);
  for (Round t = 0; t < prepared.rounds; ++t) {
    std::vector<std::uint32_t> rows;
    for (std::size_t i = 0; i < plain.peers(); ++i)
      for (const auto r : plain.rows_of(i, t)) rows.push_back(r);
    const AlignedFloats u = plain.step(0, t, plain.gradient(plain.x[0], rows));
    for (std::size_t k = 0; k < plain.size(); ++k) plain.x[0][k] -= u[k];
  }
  return plain.x[0];
}

void check_allreduce(Job job) {
  Run run(std::move(job));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  CHECK(run.peers_identical());
  CHECK(relative_difference(run.simulation.parameters(0), joined_batches(run.prepared)) < 1e-4);
}

Settings allreduce(std::size_t peers, const std::string& codec) {
  return {"exchange.method=allreduce", "exchange.codec=" + codec, "graph.kind=full",
          "peers=" + std::to_string(peers)};
}

std::vector<std::size_t> unequal(std::size_t peers) {
  std::vector<std::size_t> batches;
  for (std::size_t i = 0; i < peers; ++i) batches.push_back(4 + 5 * i);
  return batches;
}

}  // namespace

TEST_CASE("dpsgd on static graphs is W times x minus u") {
  check_dpsgd(small_job(kDpsgd + Settings{"peers=5"}), [](Round) { return ring(5); });
  check_dpsgd(small_job(kDpsgd + Settings{"peers=6", "graph.kind=star"}), [](Round) { return star(6); });
  const Settings regular{"peers=8", "graph.kind=random_regular", "graph.degree=3"};
  const Job job = small_job(kDpsgd + regular);
  const Matrix w = topology::make_schedule(job.graph).at(0).dense();
  check_dpsgd(job, [&](Round) { return w; });
}

TEST_CASE("dpsgd on a time-varying graph uses the matrix of the round") {
  for (const std::size_t peers : {4U, 6U})
    check_dpsgd(small_job(kDpsgd + Settings{"peers=" + std::to_string(peers),
                                            "graph.kind=one_peer_exponential", "run.rounds=11"}),
                [&](Round t) { return one_peer_exponential(peers, t); });
}

TEST_CASE("dpsgd cuts layers into parcels without a change") {
  const Settings sliced{"exchange.parcel=16", "model.kind=mlp", "optimizer.kind=momentum"};
  check_dpsgd(small_job(kDpsgd + sliced), [](Round) { return ring(4); });
}

TEST_CASE("dpsgd weighs neighbours by their samples where the job says so") {
  const std::vector<std::size_t> batches{4, 8, 12, 32};
  const Settings samples{"exchange.aggregate=samples"};
  check_dpsgd(with_batches(small_job(kDpsgd + samples), batches),
              [&](Round) { return by_samples(ring(4), batches); });
  check_dpsgd(with_batches(small_job(kDpsgd), batches), [](Round) { return ring(4); });
}

TEST_CASE("dpsgd with overlap is W times x minus the own u") {
  const Settings overlap{"exchange.overlap=true"};
  check_dpsgd(
      small_job(kDpsgd + overlap), [](Round) { return ring(4); }, true);
  check_dpsgd(
      small_job(kDpsgd + overlap + Settings{"graph.kind=one_peer_exponential", "peers=6"}),
      [](Round t) { return one_peer_exponential(6, t); }, true);
}

TEST_CASE("choco with the dense codec is its formula") {
  for (const char* overlap : {"false", "true"})
    for (const char* gamma : {"1.0", "0.4"}) {
      Run run(small_job({"exchange.codec=dense", std::string("exchange.gamma=") + gamma,
                         std::string("exchange.overlap=") + overlap, "peers=5"}));
      run.go();
      REQUIRE(run.all(Outcome::finished));
      const auto exact = [](std::size_t, Round, const Parcel&, const std::vector<float>& v) { return v; };
      CHECK(farthest(run, plain_choco(run.prepared, ring(5), std::stof(gamma), exact)) < 1e-5);
    }
}

TEST_CASE("choco with a lossy codec is its formula") {
  for (const auto& [codec, overlap] : {std::pair{"onebit_scaled", "false"},
                                       {"onebit_scaled", "true"},
                                       {"topk:density=0.2", "false"},
                                       {"topk:density=0.2", "true"},
                                       {"qsgd:bits=4,norm=max", "false"}}) {
    Run run(small_job({std::string("exchange.codec=") + codec, "exchange.gamma=0.3", "graph.kind=star",
                       std::string("exchange.overlap=") + overlap, "exchange.parcel=16"}));
    run.go();
    REQUIRE(run.all(Outcome::finished));
    const auto maker = compress::make_codec(run.prepared.job.exchange.codec);
    compress::Workspace workspace;
    const auto encoded = [&](std::size_t i, Round t, const Parcel& parcel, const std::vector<float>& v) {
      std::vector<std::byte> bytes(maker->max_bytes(v.size()));
      const compress::RandomKey key{run.prepared.job.run.seed, static_cast<std::uint32_t>(i),
                                    static_cast<std::uint32_t>(parcel.range.begin / 16), 2 * t};
      bytes.resize(maker->encode(v, key, workspace, bytes));
      std::vector<float> q(v.size());
      compress::decode_add(bytes, 1, q);
      return q;
    };
    INFO(codec);
    CHECK(farthest(run, plain_choco(run.prepared, star(4), 0.3f, encoded)) < 1e-5);
    CHECK_FALSE(run.peers_identical());
  }
}

TEST_CASE("dense allreduce is one process with the joined batch") {
  for (const std::size_t peers : {2U, 3U, 5U, 8U}) {
    INFO(peers << " peers");
    check_allreduce(small_job(allreduce(peers, "dense") + Settings{"run.rounds=50"}));
    check_allreduce(small_job(allreduce(peers, "dense") + Settings{"run.rounds=50", "graph.kind=ring"}));
    check_allreduce(
        with_batches(small_job(allreduce(peers, "dense") + Settings{"run.rounds=50"}), unequal(peers)));
  }
}

TEST_CASE("dense allreduce takes the same step with every optimiser") {
  for (const char* optimizer : {"momentum", "nesterov", "adam"}) {
    INFO(optimizer);
    const Settings settings{std::string("optimizer.kind=") + optimizer, "optimizer.learning_rate=0.02",
                            "run.rounds=50"};
    check_allreduce(small_job(allreduce(3, "dense") + settings));
    check_allreduce(with_batches(small_job(allreduce(3, "dense") + settings), unequal(3)));
  }
}

// topk with density 1 loses nothing, but takes the way of the lossy codecs.
TEST_CASE("allreduce by slice owners is one process with the joined batch") {
  for (const std::size_t peers : {2U, 3U, 5U}) {
    INFO(peers << " peers");
    const Settings settings = allreduce(peers, "topk:density=1") + Settings{"run.rounds=50"};
    check_allreduce(small_job(settings));
    check_allreduce(with_batches(small_job(settings), unequal(peers)));
  }
}

TEST_CASE("allreduce with a codec leaves all peers identical to the bit") {
  for (const std::size_t peers : {2U, 3U, 5U})
    for (const char* codec : {"onebit_scaled", "qsgd:bits=4,norm=max", "topk:density=0.05"}) {
      INFO(codec << ", " << peers << " peers");
      const Settings settings = allreduce(peers, codec) + Settings{"run.rounds=200", "exchange.parcel=32"};
      Run equal(small_job(settings));
      equal.go();
      INFO(equal.result.peers[0].message);
      CHECK(equal.all(Outcome::finished));
      CHECK(equal.peers_identical());
      CHECK(largest_difference(equal.simulation.parameters(0), equal.prepared.initial) > 0.01);
      Run weighted(with_batches(small_job(settings), unequal(peers)));
      CHECK(weighted.go().all(Outcome::finished));
      CHECK(weighted.peers_identical());
    }
}

TEST_CASE("without messages every peer trains by itself") {
  Run run(small_job({"exchange.method=none", "optimizer.kind=adam", "model.kind=mlp"}));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  PlainPeers plain(run.prepared);
  for (Round t = 0; t < run.prepared.rounds; ++t) subtract(plain.x, plain.steps(t));
  for (PeerId p = 0; p < plain.peers(); ++p) CHECK(Run::same_bits(run.simulation.parameters(p), plain.x[p]));
  CHECK(run.result.peers[0].traffic.data_bytes_out == 0);
}
