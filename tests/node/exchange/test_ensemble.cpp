// Method ensemble against the same written plainly, for peers of one shape and of several, and what it gains.
#include "exchange.h"
#include "gossamer/optim/ensemble.h"
#include "gossamer_test/catch.h"
#include "plan.h"
#include "sim_job.h"
#include "summary.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr float kWeight = 0.25f;

/// Exchanges after rounds 2, 5, 8 …; the two rounds after each learn from the ensemble too.
Settings ensemble(const Settings& more = {}) {
  return Settings{"exchange.method=ensemble", "exchange.codec=dense",         "exchange.local_steps=3",
                  "exchange.distill_steps=2", "exchange.distill_weight=0.25", "run.rounds=11",
                  "optimizer.kind=momentum",  "optimizer.learning_rate=0.05"} +
         more;
}

Job with_hidden(Job job, const std::vector<std::vector<std::size_t>>& hidden) {
  for (std::size_t i = 0; i < hidden.size(); ++i) job.peers.at(i).hidden = hidden[i];
  return job;
}

/// The peers of a prepared run, trained without workers, replicas or messages.
class PlainEnsemble {
 public:
  explicit PlainEnsemble(const Prepared& prepared)
      : prepared_(prepared), schedule_(topology::make_schedule(prepared.job.graph)) {
    const Job& job = prepared.job;
    optim::SplitSpec split{job.split, job.run.seed, {}};
    for (const auto& p : job.peers) split.batches.push_back(p.batch);
    for (PeerId i = 0; i < job.peers.size(); ++i) {
      objectives_.push_back(make_model(prepared, i));
      x.push_back(prepared.initial_of(i));
      optimizers_.push_back(optim::make_optimizer(job.optimizer, x.back().size()));
      batches_.push_back(std::make_unique<optim::BatchStream>(
          prepared.data.train, optim::make_sampler(split, prepared.data.train, i), job.peers[i].batch, 0,
          false));
    }
  }

  void train() {
    std::vector<AlignedFloats> exchanged;
    std::size_t exchanges = 0;
    for (Round t = 0; t < prepared_.rounds; ++t) {
      for (PeerId i = 0; i < x.size(); ++i) step(t, i, t >= 3 && t % 3 < 2, exchanges, exchanged);
      if (t % 3 != 2) continue;
      exchanged = x;
      ++exchanges;
    }
  }

  std::vector<AlignedFloats> x;

 private:
  void step(Round t, PeerId i, bool distil, std::size_t exchanges, const std::vector<AlignedFloats>& models) {
    optim::Batch batch = batches_[i]->next();
    std::vector<float> q(batch.size * objectives_[i]->classes(), 0.0f), p(q.size());
    if (distil) {
      const auto& w = schedule_.at(exchanges - 1);
      const auto add = [&](PeerId j, float weight) {
        objectives_[j]->predict(models[j], batch, p);
        for (std::size_t k = 0; k < q.size(); ++k) q[k] += weight * p[k];
      };
      add(i, w.self_weight(i));
      for (const auto& e : w.in(i)) add(e.peer, e.weight);
      batch.soft_labels = q;
      batch.soft_weight = kWeight;
    }
    AlignedFloats g(x[i].size());
    objectives_[i]->gradient(x[i], batch, g, {});
    for (const auto& l : prepared_.layers_of(i)) {
      const auto part = std::span(g).subspan(l.offset, l.size);
      optimizers_[i]->step(static_cast<double>(t), l.offset, std::span(x[i]).subspan(l.offset, l.size), part,
                           part);
    }
    for (std::size_t k = 0; k < g.size(); ++k) x[i][k] -= g[k];
  }

  const Prepared& prepared_;
  topology::Schedule schedule_;
  std::vector<std::unique_ptr<optim::Model>> objectives_;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers_;
  std::vector<std::unique_ptr<optim::BatchStream>> batches_;
};

void check_as_written_plainly(Job job) {
  Run run(std::move(job));
  run.go();
  REQUIRE(run.all(Outcome::finished));
  PlainEnsemble plain(run.prepared);
  plain.train();
  for (PeerId p = 0; p < run.result.peers.size(); ++p) {
    INFO("peer " << p);
    CHECK(largest_difference(run.parameters(p), plain.x[p]) < 1e-6);
    CHECK(largest_difference(run.parameters(p), run.prepared.initial_of(p)) > 1e-3);
  }
}

std::string refusal(const Job& job) {
  return refusal_of([&] { make_plan(job, 0); });
}

const std::vector<std::vector<std::size_t>> kUnlike{{8}, {12, 5}, {8}, {3}};

}  // namespace

TEST_CASE("peers learn from their neighbourhood's mean output as the method is defined") {
  check_as_written_plainly(small_job(ensemble()));
  check_as_written_plainly(small_job(ensemble({"graph.kind=full", "model.kind=mlp"})));
  check_as_written_plainly(small_job(ensemble({"graph.kind=star", "peers=5"})));
  check_as_written_plainly(small_job(ensemble({"graph.kind=exponential", "peers=5"})));
  check_as_written_plainly(small_job(ensemble({"graph.kind=one_peer_exponential"})));
  check_as_written_plainly(small_job(ensemble({"model.kind=mlp", "exchange.parcel=32"})));
}

TEST_CASE("peers of different hidden sizes learn from each other") {
  const auto heterogeneous = [](const Settings& more) {
    return with_hidden(small_job(ensemble(Settings{"model.kind=mlp"} + more)), kUnlike);
  };
  check_as_written_plainly(heterogeneous({"graph.kind=full"}));
  check_as_written_plainly(heterogeneous({"graph.kind=ring", "exchange.parcel=32"}));
  check_as_written_plainly(heterogeneous({"graph.kind=one_peer_exponential"}));
}

TEST_CASE("lost, doubled and late frames change nothing") {
  const Settings faults{"sim.loss=0.1", "sim.duplicate=0.1", "sim.reorder=0.2", "sim.jitter=0.01"};
  const Settings job = ensemble({"model.kind=mlp", "exchange.parcel=32"});
  CHECK(digest_of(with_hidden(small_job(job + faults), kUnlike)) ==
        digest_of(with_hidden(small_job(job), kUnlike)));
}

TEST_CASE("models travel once an exchange, in the codec that is asked for") {
  const auto traffic = [](const Settings& more) {
    Run run(small_job(ensemble(Settings{"exchange.codec=intq:bits=8"} + more)));
    run.go();
    REQUIRE(run.all(Outcome::finished));
    return run.result.peers[0].traffic;
  };
  const auto often = traffic({"run.rounds=24"}),
             rarely = traffic({"run.rounds=24", "exchange.local_steps=12"});
  CHECK(often.data_entries_out == 8 * 2 * 33);  // exchanges, neighbours, parameters
  CHECK(rarely.data_entries_out == 2 * 2 * 33);
}

TEST_CASE("wrong uses of the ensemble are refused with a reason") {
  const Job good = small_job(ensemble({"model.kind=mlp"}));
  CHECK(refusal(good).empty());
  CHECK(refusal(with_hidden(good, kUnlike)).empty());
  CHECK(refusal(with_hidden(small_job({"model.kind=mlp", "exchange.method=none"}), kUnlike)).empty());
  for (const char* method : {"dpsgd", "allreduce", "local_sgd", "gradient_tracking"}) {
    const Settings dense{"model.kind=mlp", "exchange.codec=dense", std::string("exchange.method=") + method};
    const std::string said = refusal(with_hidden(small_job(dense), kUnlike));
    CHECK(says(said, "'peer0' and 'peer1' have hidden = [8] and [12, 5]"));
    CHECK(says(said, "use method 'ensemble' or 'none'"));
  }
  CHECK(says(refusal(small_job(ensemble({"exchange.distill_steps=4"}))), "expected at most as many"));
  const Settings always{"exchange.distill_steps=3", "exchange.distill_weight=1"};
  CHECK(says(refusal(small_job(ensemble(always))), "leaves no step that learns the data's own labels"));
  CHECK(refusal(small_job(ensemble(always + Settings{"exchange.distill_steps=2"}))).empty());
  CHECK(refusal(small_job(ensemble(always + Settings{"exchange.distill_weight=0.99"}))).empty());
  CHECK(says(refusal(small_job(ensemble({"exchange.staleness=2"}))), "staleness = 0"));
  CHECK(says(refusal(small_job(ensemble({"model.kind=quadratic"}))), "predicts classes"));
  for (const char* codec : {"onebit_scaled", "topk:density=0.1", "qsgd:bits=4", "intq:bits=2", "terngrad"})
    CHECK(says(refusal(small_job(ensemble({std::string("exchange.codec=") + codec}))), "'intq:bits=4'"));
  for (const char* codec : {"fp16", "bf16", "intq:bits=4", "qsgd:bits=8", "topk:density=0.95"})
    CHECK(refusal(small_job(ensemble({std::string("exchange.codec=") + codec}))).empty());
}

TEST_CASE("hidden sizes of a peer are read, and stay with it where they differ") {
  const auto peers = [](const char* a, const char* b) {
    return std::string("peer=[{name=\"a\", address=\"tcp://127.0.0.1:7001\"") + a +
           "}, {name=\"b\", address=\"tcp://127.0.0.1:7002\"" + b + "}]";
  };
  const auto job = [&](const char* a, const char* b, const Settings& more = {}) {
    return small_job(Settings{"graph.kind=full", peers(a, b), "model.kind=mlp"} + more);
  };
  const Job one = job(", hidden=[64]", "");
  CHECK(one.heterogeneous());
  CHECK(one.hidden_of(one.peers[0]) == std::vector<std::size_t>{64});
  CHECK(one.hidden_of(one.peers[1]) == std::vector<std::size_t>{8});
  const Job both = job(", hidden=[6, 5]", ", hidden=[6, 5]");
  CHECK_FALSE(both.heterogeneous());
  CHECK(both.model.hidden == std::vector<std::size_t>{6, 5});
  CHECK_THROWS_AS(job(", hidden=[0]", ""), ConfigError);
  CHECK_THROWS_AS(job(", hidden=[4]", "", {"model.kind=softmax"}), ConfigError);
  CHECK_THROWS_AS(job(", hidden=[4]", "", {"model.initial=x.safetensors"}), ConfigError);
}

TEST_CASE("the summary tells peers, ensemble and average apart, and where there is no average") {
  const auto summary = [](Job job) {
    Run run(std::move(job));
    run.go();
    std::vector<std::span<const float>> models;
    for (PeerId p = 0; p < 4; ++p) models.push_back(run.simulation.parameters(p));
    return summarise(run.prepared, run.result.peers, models, false);
  };
  const Settings settings = ensemble({"model.kind=mlp", "graph.kind=full"});
  const Summary alike = summary(small_job(settings)),
                heterogeneous = summary(with_hidden(small_job(settings), kUnlike));
  for (const Summary& s : {alike, heterogeneous}) {
    REQUIRE(s.peer_accuracy_mean);
    REQUIRE(s.ensemble_accuracy);
    CHECK(*s.peer_accuracy_min <= *s.peer_accuracy_mean);
    CHECK(*s.vote_accuracy > 0.3);
    const auto read = parse_summary(to_json(s));
    REQUIRE(read);
    CHECK(to_table(std::span(&*read, 1)) == to_table(std::span(&s, 1)));
    CHECK(says(to_table(std::span(&s, 1)), "ensemble's vote"));
  }
  CHECK(alike.test_accuracy > 0.3);
  CHECK_FALSE(says(to_json(alike), "no_average"));
  CHECK(says(to_json(heterogeneous), "\"no_average\":\"the peers' models have different hidden sizes\""));
  CHECK(says(to_table(std::span(&heterogeneous, 1)), "no average"));
}

TEST_CASE("distilled peers do better than peers that train alone") {
  // Alone, peers learn their rows by heart. The run ends with a distillation (3 points better at seeds 1 to
  // 4).
  const Settings hard{"model.kind=mlp",
                      "model.hidden=[32]",
                      "graph.kind=full",
                      "exchange.codec=dense",
                      "run.rounds=500",
                      "data.rows=800",
                      "data.test_rows=2000",
                      "data.features=40",
                      "data.classes=6",
                      "data.separation=0.35",
                      "optimizer.learning_rate=0.2"};
  const auto accuracy = [&](const char* method, bool heterogeneous) {
    Settings settings = hard + Settings{std::string("exchange.method=") + method};
    if (method == std::string("ensemble"))
      settings = settings + Settings{"exchange.local_steps=200", "exchange.distill_steps=100"};
    Job job = small_job(settings);
    if (heterogeneous) job = with_hidden(std::move(job), {{32}, {16}, {48}, {24, 16}});
    Run run(std::move(job));
    run.go();
    std::vector<std::span<const float>> models;
    for (PeerId p = 0; p < 4; ++p) models.push_back(run.simulation.parameters(p));
    return *summarise(run.prepared, run.result.peers, models, true).peer_accuracy_mean;
  };
  for (const bool heterogeneous : {false, true}) {
    const double alone = accuracy("none", heterogeneous), distilled = accuracy("ensemble", heterogeneous);
    INFO("alone " << alone << ", distilled " << distilled);
    CHECK(distilled > alone + 0.015);
  }
}
