// What a run's figures are means of, and what topology show says that it sends.
#include "gossamer_test/catch.h"
#include "method.h"
#include "round_bytes.h"
#include "sim_job.h"
#include "summary.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

struct Figures {
  Run run;
  std::vector<std::span<const float>> models;
  Summary summary;

  explicit Figures(Job job) : run(std::move(job)) {
    run.go();
    for (PeerId p = 0; p < run.prepared.job.peers.size(); ++p) models.push_back(run.simulation.parameters(p));
    summary = summarise(run.prepared, run.result.peers, models, false);
  }
};

double sent(const Settings& settings) {
  Run run(small_job(settings));
  run.go();
  double bytes = 0;
  for (const auto& r : run.result.peers)
    bytes += static_cast<double>(r.traffic.data_bytes_out) / static_cast<double>(r.rounds);
  return bytes / static_cast<double>(run.result.peers.size());
}

}  // namespace

TEST_CASE("what the age of mixed models costs is told where it is more than half of the steps") {
  const auto told = [](const char* method, const char* latency) {
    const Figures run(small_job({std::string("exchange.method=") + method, "exchange.codec=dense",
                                 "exchange.staleness=unbounded", std::string("sim.latency=") + latency}));
    return told_of_model_age(run.run.prepared, run.summary.staleness_mean);
  };
  CHECK(told("dpsgd", "0").empty());
  CHECK(says(told("dpsgd", "0.2"), "held the mean back: steps may have counted as little as 0."));
  CHECK(told("push_sum", "0.2").empty());
}

TEST_CASE("what several peers tell of a loss counts once") {
  using What = MemberEvent::What;
  Losses losses;
  const auto tell = [&](What what, std::uint64_t start, double seconds) {
    losses.take({what, "hal", "no answer to probes for 2.0 s", start, seconds / 10}, seconds);
  };
  for (const double t : {1.0, 1.1}) tell(What::suspected, 5, t);
  for (const double t : {2.0, 2.1, 2.2}) tell(What::gone, 5, t);
  for (const double t : {3.0, 3.1}) tell(What::back, 6, t);
  tell(What::gone, 5, 3.2);  // late
  tell(What::left, 6, 4);
  REQUIRE(losses.all().size() == 2);
  CHECK(losses.all()[0].seconds == 2);
  CHECK(losses.all()[0].share_done == Approx(0.2));
  CHECK(losses.all()[0].returned == 3);
  CHECK_FALSE(losses.all()[1].returned);
  CHECK(text_of(losses.all()[0]) ==
        "hal was lost at 2.0 s, 20.0 % of the run (no answer to probes for 2.0 s); back at 3.0 s");

  Summary summary;
  summary.losses = losses.all();
  const auto back = parse_summary(to_json(summary));
  REQUIRE(back);
  REQUIRE(back->losses.size() == 2);
  CHECK(back->losses[0].returned == 3);
  CHECK(says(to_table(std::span(&summary, 1)), "2, 1 came back"));
}

TEST_CASE("a run without test rows says so in the place of a number") {
  Summary summary;
  summary.has_accuracy = false;
  summary.test_accuracy = summary.test_loss = std::nan("");
  const auto back = parse_summary(to_json(summary));
  REQUIRE(back);
  for (const Summary& s : {summary, *back}) {
    const std::string table = to_table(std::span(&s, 1));
    CHECK(says(table, "test loss"));
    CHECK_FALSE(says(table, "nan"));
  }
}

TEST_CASE("the training loss weighs peers by their rows, the model as the run's mean does") {
  const std::vector<std::size_t> batches{2, 30, 4, 4};
  const Settings alone{"exchange.method=none", "exchange.codec=dense"};
  const Figures plain(with_batches(small_job(alone), batches));
  double loss = 0;
  for (std::size_t p = 0; p < 4; ++p)
    loss += plain.run.result.peers[p].train_loss * static_cast<double>(batches[p]) / 40;
  CHECK(plain.summary.train_loss == Approx(loss).epsilon(1e-12));
  const std::vector<PeerId> all{0, 1, 2, 3};
  CHECK(model_weights(plain.run.prepared, all) == std::vector<double>(4, 1.0));

  const Settings gossip{"exchange.method=dpsgd", "exchange.codec=dense", "exchange.aggregate=samples"};
  const Figures weighted(with_batches(small_job(gossip), batches));
  const std::vector<double> weights = model_weights(weighted.run.prepared, all);
  const AlignedFloats mean = average(weighted.models, weights);
  for (std::size_t i = 0; i < 33; ++i) {
    double x = 0;
    for (std::size_t p = 0; p < 4; ++p)
      x += static_cast<double>(weighted.models[p][i]) * static_cast<double>(batches[p]) / 40;
    REQUIRE(static_cast<double>(mean[i]) == Approx(x).margin(1e-6));
  }
  CHECK(weights[1] == Approx(15 * weights[0]));
}

TEST_CASE("what a job sends in a round is what a simulated run of it sends") {
  const Settings mlp{"model.kind=mlp", "model.hidden=[64]", "data.features=40", "run.rounds=64",
                     "exchange.dense_below=300"};
  const std::vector<Settings> jobs{
      {"exchange.codec=topk:density=0.05"},
      {"exchange.codec=qsgd:bits=4,norm=max"},
      {"exchange.codec=onebit_scaled"},
      {"exchange.method=allreduce", "graph.kind=full", "exchange.codec=qsgd:bits=4,norm=max"},
      {"exchange.method=local_sgd", "exchange.codec=dense", "exchange.local_steps=8"},
      {"exchange.method=diloco", "graph.kind=full", "exchange.codec=dense", "exchange.local_steps=4"},
      {"exchange.method=push_sum", "exchange.codec=dense", "graph.kind=one_peer_exponential"},
  };
  for (const Settings& settings : jobs) {
    const Settings job = mlp + settings;
    INFO(settings.front() << " " << settings.back());
    CHECK(bytes_per_round(small_job(job)).mean == Approx(sent(job)).epsilon(0.01));
  }
  for (const Settings& settings : std::vector<Settings>{
           {"exchange.method=choco", "exchange.codec=topk:density=0.05"},
           {"exchange.method=dpsgd", "exchange.codec=dense"},
           {"exchange.method=push_sum", "exchange.codec=dense", "graph.kind=one_peer_exponential"},
           {"exchange.method=epidemic", "exchange.codec=dense"},
           {"exchange.method=pairwise", "exchange.codec=dense"}}) {
    const Settings job = mlp + settings + Settings{"exchange.staleness=unbounded"};
    INFO(settings.front() << " in which nobody waits");
    CHECK(bytes_per_round(small_job(job)).mean == Approx(sent(job)).epsilon(0.03));
    const Settings all_day = job + Settings{"run.rounds=100000000"};
    CHECK(bytes_per_round(small_job(all_day)).mean == Approx(sent(job)).epsilon(0.03));
  }
  const RoundBytes star = bytes_per_round(small_job({"graph.kind=star"}));
  CHECK(star.most == Approx(3 * star.least));
  const Settings long_cycle{
      "exchange.method=diloco", "graph.kind=full", "exchange.codec=dense", "exchange.local_steps=100000",
      "data.features=5000",     "data.rows=64",    "run.rounds=100000"};
  CHECK(says(refusal_of([&] { bytes_per_round(small_job(long_cycle)); }), "would take long to simulate"));
}
