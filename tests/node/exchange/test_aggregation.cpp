// Aggregation rules in the methods: what is refused, the same training written plainly, identical peers.
#include <numeric>

#include "exchange.h"
#include "gossamer/optim/aggregate.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;
using gossamer::test::says_if_any;

namespace {

Settings job_of(const std::string& method, const std::string& graph, const std::string& rule,
                const Settings& more = {}) {
  return Settings{"exchange.method=" + method, "graph.kind=" + graph, "exchange.aggregate=" + rule,
                  "exchange.codec=dense"} +
         more;
}

/// rule over the vectors, each without the padding between layers; weights all alike.
void aggregate(const std::string& rule, const std::vector<optim::Layer>& layers,
               const std::vector<AlignedFloats>& vectors, std::size_t self, const std::vector<float>& weights,
               AlignedFloats& out) {
  std::vector<std::vector<float>> bare;
  for (const auto& v : vectors) {
    auto& b = bare.emplace_back();
    for (const auto& l : layers) {
      const auto begin = v.begin() + static_cast<std::ptrdiff_t>(l.offset);
      b.insert(b.end(), begin, begin + static_cast<std::ptrdiff_t>(l.size));
    }
  }
  const std::vector<std::span<const float>> views(bare.begin(), bare.end());
  std::vector<float> result(bare[0].size());
  optim::make_aggregator(rule, vectors.size())->aggregate({views, weights, self}, result);
  auto from = result.begin();
  for (const auto& l : layers) {
    std::copy_n(from, l.size, out.begin() + static_cast<std::ptrdiff_t>(l.offset));
    from += static_cast<std::ptrdiff_t>(l.size);
  }
}

/// The farthest that a peer of the run is from the same training written plainly.
template <class Round>
double farthest(const Settings& settings, Round&& round) {
  Run run(small_job(settings));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  PlainPeers plain(run.prepared);
  for (node::Round t = 0; t < run.prepared.rounds; ++t) round(plain, run.prepared, t);
  double worst = 0;
  for (PeerId p = 0; p < plain.peers(); ++p)
    worst = std::max(worst, largest_difference(run.parameters(p), plain.x[p]));
  return worst;
}

/// All peers' step by the rule's value of the vectors.
void step_by_rule(PlainPeers& plain, const Prepared& prepared, Round t,
                  const std::vector<AlignedFloats>& vectors) {
  const std::vector<float> weights(plain.peers(), 1.0f / static_cast<float>(plain.peers()));
  AlignedFloats g(plain.size());
  aggregate(prepared.job.exchange.aggregate, prepared.layers, vectors, 0, weights, g);
  for (std::size_t i = 0; i < plain.peers(); ++i) {
    const AlignedFloats u = plain.step(i, t, g);
    for (std::size_t k = 0; k < u.size(); ++k) plain.x[i][k] -= u[k];
  }
}

void broadcast_round(PlainPeers& plain, const Prepared& prepared, Round t) {
  std::vector<AlignedFloats> gradients;
  for (std::size_t i = 0; i < plain.peers(); ++i)
    gradients.push_back(plain.gradient(plain.x[i], plain.rows_of(i, t)));
  step_by_rule(plain, prepared, t, gradients);
}

/// On a ring of at least 4, with Metropolis weights of a third each.
void ring_round(PlainPeers& plain, const Prepared& prepared, Round t) {
  const std::size_t n = plain.peers();
  const auto u = plain.steps(t);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < u[i].size(); ++k) plain.x[i][k] -= u[i][k];
  const auto before = plain.x;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::size_t> near{(i + n - 1) % n, i, (i + 1) % n};
    std::sort(near.begin(), near.end());
    std::vector<AlignedFloats> vectors;
    for (const std::size_t j : near) vectors.push_back(before[j]);
    const auto self = static_cast<std::size_t>(std::find(near.begin(), near.end(), i) - near.begin());
    aggregate(prepared.job.exchange.aggregate, prepared.layers, vectors, self,
              std::vector<float>(3, 1.0f / 3), plain.x[i]);
  }
}

const Settings kSliced{"peers=6", "model.kind=mlp", "exchange.parcel=16", "optimizer.kind=momentum",
                       "run.rounds=8"};

}  // namespace

TEST_CASE("a rule is refused where it is not sound or cannot tolerate its Byzantine peers") {
  const Settings six{"peers=6"};
  const struct {
    const char *method, *graph, *rule;
    Settings more;
    const char* refused;  ///< empty: accepted
  } rows[] = {
      {"broadcast", "full", "median", {}, ""},
      {"broadcast", "full", "nnm+krum:f=1", {}, ""},
      {"broadcast", "full", "krum:f=1", {"exchange.codec=qsgd:bits=4"}, ""},
      {"broadcast", "full", "vote", {"exchange.codec=sign_vote"}, ""},
      {"broadcast", "full", "vote", {}, ""},
      {"broadcast", "full", "vote", {"exchange.codec=qsgd"}, "use codec 'sign_vote'"},
      {"broadcast", "full", "median", {"exchange.codec=qsgd"}, "rounds at random"},
      {"broadcast",
       "full",
       "weighted",
       {"exchange.codec=sign_vote"},
       "unbiased or converges under error feedback"},
      {"broadcast", "full", "self_clip:f=1", {}, "drift apart"},
      {"broadcast", "full", "krum:f=2", {}, "expected 2f+2 < n"},
      {"broadcast", "full", "median:f=3", {}, "peer 'peer0' with its neighbours peer1, peer2"},
      {"dpsgd", "ring", "trimmed_mean:f=1", {}, ""},
      {"dpsgd", "ring", "self_clip:f=1", {}, ""},
      {"dpsgd", "ring", "trimmed_mean:f=2", {}, "peer 'peer0' with its neighbours peer1, peer5: "},
      {"dpsgd", "star", "median:f=1", {}, "peer 'peer1' with its neighbours peer0: "},
      {"dpsgd", "ring", "vote", {}, "signs of parameters are no parameters"},
      {"dpsgd", "ring", "median", {"exchange.staleness=2"}, "staleness = 0"},
      {"local_sgd", "full", "multi_krum:f=1", {}, ""},
      {"epidemic", "epidemic", "median", {"graph.degree=3"}, ""},
      {"choco", "ring", "median", {}, "made of weighted sums"},
      {"allreduce", "full", "krum", {}, "use method 'broadcast'"},
  };
  for (const auto& row : rows) {
    const std::string said = refusal(six + job_of(row.method, row.graph, row.rule, row.more));
    INFO(row.method << " on " << row.graph << " with " << row.rule << ": " << said);
    CHECK(says_if_any(said, row.refused));
  }
}

TEST_CASE("broadcast with a rule is the rule over all gradients, then one step") {
  for (const char* rule : {"median", "trimmed_mean:f=1", "krum:f=1", "vote"}) {
    INFO(rule);  // these pick or order entries, so that slices and padding change no bit
    CHECK(farthest(job_of("broadcast", "full", rule, kSliced), broadcast_round) == 0);
  }
  for (const char* rule :
       {"nnm+trimmed_mean:f=1", "multi_krum:f=1", "geometric_median:f=1", "centered_clip:f=1"}) {
    INFO(rule);
    CHECK(farthest(job_of("broadcast", "full", rule, kSliced), broadcast_round) < 1e-5);
  }
}

TEST_CASE("broadcast may send averages of gradients, which start at zero") {
  std::vector<AlignedFloats> m;
  const auto round = [&](PlainPeers& plain, const Prepared& prepared, Round t) {
    if (t == 0) m.assign(plain.peers(), AlignedFloats(plain.size()));
    for (std::size_t i = 0; i < plain.peers(); ++i) {
      const AlignedFloats g = plain.gradient(plain.x[i], plain.rows_of(i, t));
      for (std::size_t k = 0; k < g.size(); ++k) m[i][k] = 0.75f * m[i][k] + 0.25f * g[k];
    }
    step_by_rule(plain, prepared, t, m);
  };
  const Settings settings = kSliced + Settings{"exchange.send_momentum=0.75", "optimizer.kind=sgd"};
  CHECK(farthest(job_of("broadcast", "full", "median", settings), round) == 0);
  CHECK(says(refusal(job_of("dpsgd", "full", "median", settings)), "(but to broadcast)"));
}

TEST_CASE("dpsgd with a rule is the rule over the neighbourhood's parameters") {
  for (const char* rule : {"median", "trimmed_mean:f=1"}) {
    INFO(rule);
    CHECK(farthest(job_of("dpsgd", "ring", rule, kSliced), ring_round) == 0);
  }
  for (const char* rule : {"self_clip:f=1", "centered_clip:f=1", "geometric_median:f=1"}) {
    INFO(rule);
    CHECK(farthest(job_of("dpsgd", "ring", rule, kSliced), ring_round) < 1e-5);
  }
}

TEST_CASE("on a full graph a rule leaves all peers identical to the bit") {
  for (const char* method : {"broadcast", "dpsgd", "local_sgd"})
    for (const char* rule : {"median", "trimmed_mean:f=2", "krum:f=2", "multi_krum:f=2",
                             "geometric_median:f=2", "centered_clip:f=2", "nnm+centered_clip:f=2"}) {
      Settings seven{"peers=7", "run.rounds=8", "exchange.parcel=16"};
      if (method == std::string("local_sgd")) seven.emplace_back("exchange.local_steps=4");
      Run run(small_job(job_of(method, "full", rule, seven)));
      run.go();
      INFO(method << " " << rule);
      CHECK(run.all(Outcome::finished));
      CHECK(run.peers_identical());
    }
}

TEST_CASE("losses, duplicates and reordering change nothing in what a rule sees") {
  for (const char* method : {"broadcast", "dpsgd"}) {
    const Settings settings = job_of(method, "full", "nnm+krum:f=1", kSliced);
    const Settings faulty{"sim.loss=0.1", "sim.duplicate=0.1", "sim.reorder=0.2", "sim.jitter=0.01"};
    CHECK(digest_of(small_job(settings)) == digest_of(small_job(settings + faulty)));
  }
}

TEST_CASE("peers learn by the majority of signs, one bit an entry") {
  Run run(small_job(job_of("broadcast", "full", "vote",
                           {"exchange.codec=sign_vote", "optimizer.kind=sgd", "optimizer.learning_rate=0.02",
                            "run.rounds=60", "model.kind=softmax", "exchange.parcel=4194304"})));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  CHECK(run.peers_identical());
  CHECK(run.result.peers[0].train_loss < 0.7);
}
