// Peers as objects of a program: a model of its own over sockets and simulated, snapshots, a loop of its own,
// and what is thrown.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "gossamer/node/peer.h"
#include "gossamer/node/training_loop.h"
#include "gossamer/optim/click_objective.h"
#include "gossamer/optim/planted_clicks.h"
#include "gossamer_test/catch.h"
#include "own_job.h"
#include "process.h"

using namespace gossamer;
using namespace gossamer::node;

namespace {

constexpr std::size_t kFloats = 40;

/// Half the squared distance to a point of each peer's own, with a little noise: the mean of the points is
/// best.
void wave(std::size_t peer, std::uint64_t step, std::span<const float> x, std::span<float> g,
          std::size_t begin) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = begin + i;
    const float target = static_cast<float>(k % 5) + static_cast<float>(peer) - 1.5f;
    const float noise = 0.01f * static_cast<float>((step * 7 + k * 3 + peer) % 11) - 0.05f;
    g[i] = x[i] - target + noise;
  }
}

class Own final : public optim::Objective {
 public:
  explicit Own(std::size_t peer) : peer_(peer) {
    add_layer("first", {{"first", {16}, 0}});
    add_layer("second", {{"second", {4, 6}, 0}});
  }
  void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    std::fill(g.begin(), g.end(), 0.0f);
    std::size_t begin = kFloats;
    for (std::size_t l = 2; l-- > 0;) {
      const optim::Layer& layer = layers()[l];
      begin -= layer.size;
      wave(peer_, key.step, x.subspan(layer.offset, layer.size), g.subspan(layer.offset, layer.size), begin);
      on_layer(l);
    }
    return {1, 8};
  }
  optim::Figures evaluate(std::span<const float> x) override { return {{"first", x[0]}}; }

 private:
  std::size_t peer_;
};

Learner own() {
  return {[](std::size_t peer) { return std::make_unique<Own>(peer); }, {}};
}

struct OwnJob : test::OwnJob {
  explicit OwnJob(std::size_t count = 4)
      : test::OwnJob(count,
                     "[graph]\nkind = \"ring\"\n[optimizer]\nlearning_rate = 0.2\nbatch = 8\n"
                     "[exchange]\nmethod = \"choco\"\ncodec = \"onebit_scaled\"\n"
                     "[run]\nrounds = 30\njoin_timeout = 20\n") {}
};

using Models = std::vector<std::vector<float>>;

/// The peers as threads of this process; what(p) makes each.
template <class Make>
std::vector<PeerResult> run_all(std::size_t count, Models& models, const Make& make) {
  std::vector<Peer> peers;
  for (std::size_t p = 0; p < count; ++p) peers.push_back(make(p));
  std::vector<PeerResult> results(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < count; ++p) threads.emplace_back([&, p] { results[p] = peers[p].run(); });
  }
  models.clear();
  for (const Peer& peer : peers) models.emplace_back(peer.parameters().begin(), peer.parameters().end());
  return results;
}

template <class Work>
std::pair<std::optional<Error::Code>, std::string> error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace

TEST_CASE("a program's own model learns the same bits as threads, as peers by name and simulated") {
  const OwnJob job;
  Models threads(4), peers;
  std::atomic<int> reports = 0;
  const auto results = run_local(
      job.load({"run.report_every=0.001"}), own(),
      [&](std::size_t) { return Callbacks{.on_report = [&](const Report&) { ++reports; }}; }, {},
      [&](std::size_t p, std::span<const float> x) { threads[p].assign(x.begin(), x.end()); });
  for (const PeerResult& r : results) {
    CHECK(r.outcome == Outcome::finished);
    CHECK(r.message.empty());
    CHECK(r.rounds == 30);
    CHECK(r.rows == 240);
    CHECK(r.bytes_out > 0);
  }
  CHECK(reports >= 4);
  for (const auto& r :
       run_all(4, peers, [&](std::size_t p) { return Peer(job.load(), fmt::format("peer{}", p), own()); }))
    CHECK(r.outcome == Outcome::finished);
  CHECK(peers == threads);
  const SimulationResult simulated = simulate(job.load(), own());
  CHECK(simulated.parameters == threads);
  CHECK(std::abs(threads[0][3] - 3) < 0.5);
}

TEST_CASE("evaluations give the program's own figures") {
  const OwnJob job(1);
  std::optional<optim::Figures> test;
  SimulationOptions options;
  options.on_report = [&](std::size_t, double, const Report& r) {
    if (r.test) test = r.test;
  };
  simulate(job.load({"run.evaluate_every=10", "exchange.method=none"}), own(), std::move(options));
  REQUIRE(test);
  CHECK(optim::find_figure(*test, "first"));
  const std::vector<float> x(48, 0.5f);
  CHECK(optim::find_figure(evaluate(job.load(), x, own()), "first") == 0.5);
  CHECK(error_of([&] { evaluate(job.load(), std::span(x).first(7), own()); }).second ==
        "found 7 parameters; the model has 48, padding included");
}

TEST_CASE("all peers that go on from snapshots of one round come to the same bits") {
  const OwnJob job;
  for (const char* method : {"choco", "allreduce", "diloco"}) {
    INFO(method);
    const auto load = [&] {
      return job.load({std::string("exchange.method=") + method, "exchange.codec=dense", "graph.kind=full",
                       "optimizer.kind=momentum", "run.rounds=400"});
    };
    std::vector<std::unique_ptr<Peer>> peers;
    for (std::size_t p = 0; p < 4; ++p)
      peers.push_back(std::make_unique<Peer>(load(), fmt::format("peer{}", p), own()));
    std::vector<Snapshot> snapshots(4);
    {
      std::vector<std::jthread> threads;
      for (auto& peer : peers) threads.emplace_back([&] { peer->run(); });
      for (std::size_t p = 0; p < 4; ++p)
        threads.emplace_back([&, p] { snapshots[p] = peers[p]->snapshot(150); });
    }
    Models expected, found;
    for (std::size_t p = 0; p < 4; ++p) {
      CHECK(snapshots[p].round == 150);
      CHECK(snapshots[p].parameters.size() == peers[p]->parameters().size());
      expected.emplace_back(peers[p]->parameters().begin(), peers[p]->parameters().end());
    }
    peers.clear();
    run_all(4, found, [&](std::size_t p) {
      return Peer(load(), fmt::format("peer{}", p), own(), {}, {.state = snapshots[p].state});
    });
    CHECK(found == expected);
  }
}

TEST_CASE("a loop of one's own learns what a model that is called learns") {
  const OwnJob job(2);
  const Job full = job.load({"graph.kind=full"});  // it writes a file
  const auto called = simulate(full, own());
  Models looped(2);
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < 2; ++p)
    threads.emplace_back([&, p] {
      TrainingLoop loop(full, fmt::format("peer{}", p), {{"first", {16}}, {"second", {4, 6}}});
      std::uint64_t step = 0;
      while (loop.wait()) {
        wave(p, step, loop.parameters(1), loop.gradient(1), 16);
        if (step % 2) loop.ready(1);
        wave(p, step, loop.parameters(0), loop.gradient(0), 0);
        loop.post(1, 8);
        ++step;
      }
      const PeerResult result = loop.finish();
      CHECK(result.outcome == Outcome::finished);
      CHECK(result.rows == 240);
      for (std::size_t t = 0; t < 2; ++t)
        looped[p].insert(looped[p].end(), loop.parameters(t).begin(), loop.parameters(t).end());
    });
  threads.clear();
  // small tensors are exchanged together there, and one by one here: the model is the same but for the code
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t k = 0; k < kFloats; ++k) CHECK(std::abs(looped[p][k] - called.parameters[p][k]) < 0.3);
}

TEST_CASE("a loop goes on when others are gone, and its arrays stay where they are") {
  const OwnJob job(2);
  const Job full = job.load({"graph.kind=full", "run.min_peers=1", "run.rounds=200"});
  const std::vector<TensorSpec> tensors{{"x", {kFloats}}};
  const auto turn = [](TrainingLoop& loop, std::size_t p, std::uint64_t step) {
    wave(p, step, loop.parameters(0), loop.gradient(0), 0);
    loop.post(1, 8);
  };
  std::jthread other([&] {
    TrainingLoop loop(full, "peer1", tensors);
    for (std::uint64_t step = 0; step < 20 && loop.wait(); ++step) turn(loop, 1, step);
  });  // it leaves in the midst of the run
  TrainingLoop loop(full, "peer0", tensors);
  const float* const where = loop.parameters(0).data();
  for (std::uint64_t step = 0; loop.wait(); ++step) turn(loop, 0, step);
  const PeerResult result = loop.finish();
  INFO(result.message);
  CHECK(result.outcome == Outcome::finished);
  CHECK(result.rounds == 200);
  CHECK(loop.parameters(0).data() == where);
}

TEST_CASE("a loop says what was called out of turn, and ends a run that it leaves") {
  const OwnJob job(2);
  TrainingLoop loop(job.load({"graph.kind=full"}), "peer0", {{"x", {8}}});
  CHECK(error_of([&] { loop.post(1, 1); }).first == Error::Code::misuse);
  CHECK(error_of([&] { loop.ready(1); }).second.find("tensor 1: there are 1") == 0);
  CHECK(loop.finish().outcome == Outcome::interrupted);  // the other never came
  CHECK_FALSE(loop.wait());
  CHECK(error_of([&] { TrainingLoop(job.load(), "peer1", {}); }).first == Error::Code::misuse);
}

TEST_CASE("a loop that ends in the midst of a gradient leaves the others in order, and they go on") {
  const OwnJob own_job(2);
  const Job job = own_job.load({"graph.kind=full", "run.rounds=100000000"});
  TrainingLoop leaves(job, "peer0", {{"x", {8}}}), stays(job, "peer1", {{"x", {8}}});
  std::atomic<bool> end = false;
  std::jthread other([&] {
    while (!end && stays.wait()) stays.post(1, 8);
  });
  for (int round = 0; round < 10; ++round) {
    REQUIRE(leaves.wait());
    leaves.post(1, 8);
  }
  REQUIRE(leaves.wait());
  const auto begin = std::chrono::steady_clock::now();
  const PeerResult result = leaves.finish();
  CHECK(result.outcome == Outcome::interrupted);
  CHECK_THAT(result.message, ContainsSubstring("left in round"));  // and did not wait for run.grace
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
  end = true;
  other.join();
  CHECK(stays.finish().outcome == Outcome::interrupted);
}

TEST_CASE("steps may be the program's own") {
  const OwnJob job;
  Learner learner = own();
  learner.optimizer = [](std::size_t) {
    return optim::make_external_optimizer(
        [](double, std::size_t, std::span<const float> x, std::span<const float> g, std::span<float> after) {
          for (std::size_t i = 0; i < x.size(); ++i) after[i] = x[i] - 0.2f * g[i];
        });
  };
  for (const char* method : {"dpsgd", "allreduce"}) {
    const auto load = [&] {
      return job.load({std::string("exchange.method=") + method, "exchange.codec=dense", "graph.kind=full"});
    };
    const auto plain = simulate(load(), own()), external = simulate(load(), learner);
    for (std::size_t k = 0; k < kFloats; ++k)
      CHECK(std::abs(plain.parameters[2][k] - external.parameters[2][k]) < 1e-5f);
  }
}

TEST_CASE("a peer ends when it is asked to, and runs once") {
  const OwnJob job(1);
  Peer peer(job.load({"exchange.method=none", "run.rounds=100000000"}), "peer0", own());
  CHECK(peer.endpoint().find("127.0.0.1") != std::string::npos);
  std::stop_source source;
  std::jthread stopper([&] {
    test::pause(0.2);
    source.request_stop();
  });
  const PeerResult result = peer.run(source.get_token());
  CHECK(result.outcome == Outcome::interrupted);
  CHECK(result.rounds > 0);
  CHECK(error_of([&] { peer.run(); }).first == Error::Code::misuse);
  CHECK(error_of([&] { peer.snapshot(); }).second.find("the run ended before") == 0);
}

TEST_CASE("what a program gives that cannot be used is said by one type of error") {
  const OwnJob job(2);
  CHECK(error_of([&] { Peer(job.load(), "peer7", own()); }).second.find("no such peer") != std::string::npos);
  CHECK(error_of([&] { job.load({"exchange.codec=nonesuch"}); }).first == Error::Code::bad_input);
  const auto refused = [&](std::function<std::unique_ptr<optim::Objective>(std::size_t)> make,
                           const std::vector<std::string>& settings = {}) {
    return error_of([&] { simulate(job.load(settings), {std::move(make), {}}); });
  };
  CHECK(refused([](std::size_t) { return nullptr; }).second.find("gave no model") != std::string::npos);
  CHECK(refused([](std::size_t p) { return std::make_unique<Own>(p); },
                {"exchange.method=ensemble", "exchange.codec=dense", "graph.kind=full"})
            .first == Error::Code::bad_input);
  struct Mine {};
  CHECK_THROWS_AS(
      simulate(job.load(), {[](std::size_t) -> std::unique_ptr<optim::Objective> { throw Mine(); }, {}}),
      Mine);
  CHECK(error_of([&] { Peer(job.load(), "peer0", own(), {}, {.state = std::vector<std::byte>(9)}); }).first ==
        Error::Code::bad_state);
}

TEST_CASE("sparse models learn out of their tables, with dense parts that peers exchange or without") {
  const OwnJob job(2);
  const auto planted = [](std::uint64_t first, std::uint64_t samples, std::size_t peer, std::size_t peers) {
    return optim::open_planted({.samples = samples,
                                .first = first,
                                .fields = 4,
                                .keys = 50,
                                .linear = 0.8,
                                .pairs = 0.1,
                                .peer = peer,
                                .peers = peers});
  };
  for (const char* kind : {"lr", "deepfm"})
    for (const char* method : {"none", "dpsgd", "choco"}) {
      INFO(kind << " " << method);
      const Learner learner{[&](std::size_t peer) {
                              optim::ClickParts parts;
                              parts.model.kind = kind;
                              parts.train = [=](std::uint64_t) { return planted(0, 20000, peer, 2); };
                              parts.test = [=] { return planted(20000, 2000, 0, 1); };
                              parts.batch = 32;
                              return optim::make_click_objective(std::move(parts));
                            },
                            {}};
      double auc = 0;
      SimulationOptions options;
      options.on_report = [&](std::size_t, double, const Report& r) {
        if (r.test) auc = optim::find_figure(*r.test, "auc").value();
      };
      std::vector<std::string> settings{std::string("exchange.method=") + method, "run.rounds=300",
                                        "run.evaluate_every=100"};
      if (std::string(method) != "choco") settings.emplace_back("exchange.codec=dense");
      for (const PeerResult& r : simulate(job.load(settings), learner, std::move(options)).peers)
        CHECK(r.outcome == Outcome::finished);
      CHECK(auc > 0.65);
    }
}

TEST_CASE("what a model throws in a gradient ends the run with its words") {
  class Throwing final : public optim::Objective {
   public:
    Throwing() { add_layer("x", {{"x", {4}, 0}}); }
    void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
    optim::StepResult gradient(std::span<float>, const optim::BatchKey& key, std::span<float>,
                               const optim::OnLayer& on_layer) override {
      if (key.step == 3) throw std::runtime_error("the disk of peer 0 is gone");
      on_layer(0);
      return {1, 1};
    }
    optim::Figures evaluate(std::span<const float>) override { return {}; }
  };
  const OwnJob job(1);
  const auto result = run_local(job.load({"exchange.method=none"}),
                                {[](std::size_t) { return std::make_unique<Throwing>(); }, {}});
  CHECK(result[0].outcome == Outcome::failed);
  CHECK(result[0].message == "the disk of peer 0 is gone");
  CHECK(result[0].rounds == 3);
}
