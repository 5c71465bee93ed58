// Training loops that step their parameters themselves, and what they keep beside them.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <thread>

#include "gossamer/node/training_loop.h"
#include "gossamer_test/catch.h"
#include "method.h"
#include "own_job.h"
#include "process.h"

using namespace gossamer;
using namespace gossamer::node;
using gossamer::test::Folder;

namespace {

constexpr std::size_t kFloats = 40;
constexpr float kRate = 0.05f, kMomentum = 0.5f;
const std::vector<TensorSpec> kTensors{{"first", {16}}, {"second", {4, 6}}};

/// Of half the squared distance to a point of each peer's own.
void pull(std::size_t peer, std::span<const float> x, std::span<float> g, std::size_t begin) {
  for (std::size_t i = 0; i < x.size(); ++i)
    g[i] = x[i] - static_cast<float>((begin + i) % 5) - static_cast<float>(peer) + 1.5f;
}

void compute(TrainingLoop& loop, std::size_t peer) {
  pull(peer, loop.parameters(0), loop.gradient(0), 0);
  pull(peer, loop.parameters(1), loop.gradient(1), 16);
}

/// v ← m v + g; x ← x − η v, with v in the arrays that are kept from `first` on.
void step(TrainingLoop& loop) {
  for (std::size_t t = 0; t < 2; ++t) {
    const auto x = loop.changing(t), g = loop.gradient(t), v = loop.kept(t);
    for (std::size_t i = 0; i < x.size(); ++i) {
      v[i] = kMomentum * v[i] + g[i];
      x[i] -= kRate * v[i];
    }
  }
}

LoopOptions own_steps() {
  LoopOptions options;
  options.own_steps = true;
  options.kept = {{"first", std::vector<float>(16)}, {"second", std::vector<float>(24)}};
  return options;
}

/// One round of a loop that steps by itself.
void turn(TrainingLoop& loop, std::size_t peer) {
  compute(loop, peer);
  if (!loop.steps_by_mean()) step(loop);
  loop.post(1, 8);
  if (loop.steps_by_mean() && loop.wait_for_mean()) step(loop);
}

struct LoopJob : test::OwnJob {
  explicit LoopJob(std::size_t count)
      : OwnJob(count,
               fmt::format("[graph]\nkind = \"full\"\n[optimizer]\nkind = \"momentum\"\nlearning_rate = {}\n"
                           "momentum = {}\nbatch = 8\n[exchange]\ncodec = \"dense\"\n[run]\nrounds = 60\n"
                           "join_timeout = 20\n",
                           kRate, kMomentum)) {}
};

using Models = std::vector<std::vector<float>>;

std::vector<float> model_of(const TrainingLoop& loop) {
  std::vector<float> x;
  for (std::size_t t = 0; t < kTensors.size(); ++t)
    x.insert(x.end(), loop.parameters(t).begin(), loop.parameters(t).end());
  return x;
}

/// Loops of all peers side by side, and where they end.
Models run_loops(const Job& job, const LoopOptions& options) {
  std::vector<std::unique_ptr<TrainingLoop>> loops;
  for (const auto& peer : job.peers)
    loops.push_back(std::make_unique<TrainingLoop>(job, peer.name, kTensors, options));
  std::vector<std::jthread> threads;
  Models models(loops.size());
  for (std::size_t p = 0; p < loops.size(); ++p)
    threads.emplace_back([&, p] {
      TrainingLoop& loop = *loops[p];
      while (loop.wait()) {
        if (options.own_steps) {
          turn(loop, p);
        } else {
          compute(loop, p);
          loop.post(1, 8);
        }
      }
      const PeerResult result = loop.finish();
      INFO(result.message);
      CHECK(result.outcome == Outcome::finished);
      models[p] = model_of(loop);
    });
  threads.clear();
  return models;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> settings_of(const std::string& method) {
  std::vector<std::string> settings{"exchange.method=" + method};
  if (method == "gtopk") settings.push_back("exchange.codec=topk:density=1");
  if (method == "relay_sum") settings.push_back("graph.kind=tree");
  if (method == "pairwise") settings.push_back("exchange.staleness=unbounded");
  if (method == "gradient_tracking" || method == "exact_diffusion") settings.push_back("optimizer.kind=sgd");
  return settings;
}

}  // namespace

TEST_CASE("what a loop calls ready reaches the others while the loop is busy with something else") {
  const LoopJob files(2);
  const Job job = files.load({"exchange.method=dpsgd", "run.rounds=2"});
  TrainingLoop busy(job, "peer0", kTensors), other(job, "peer1", kTensors);
  REQUIRE((busy.wait() && other.wait()));
  compute(busy, 0);
  for (std::size_t t = 0; t < kTensors.size(); ++t) busy.ready(t);
  compute(other, 1);
  other.post(1, 8);
  REQUIRE(other.wait());
  busy.post(1, 8);
  REQUIRE(busy.wait());
  std::jthread last([&] {
    compute(other, 1);
    other.post(1, 8);
    CHECK_FALSE(other.wait());
    CHECK(other.finish().outcome == Outcome::finished);
  });
  compute(busy, 0);
  busy.post(1, 8);
  CHECK_FALSE(busy.wait());
  CHECK(busy.finish().outcome == Outcome::finished);
}

TEST_CASE("with every method steps of the loop's own come to what the job's optimiser comes to") {
  const LoopJob job(3);
  for (const Method* method : methods()) {
    const std::string name = method->row.name;
    DYNAMIC_SECTION(name) {
      if (method->needs.classifier) return;  // gives the program's model no place
      const auto settings = settings_of(name);
      if (method->own_steps == OwnSteps::refused) {
        CHECK_THAT(error_of([&] { run_loops(job.load(settings), own_steps()); }),
                   ContainsSubstring("takes no optimiser of the loop's own"));
        return;
      }
      const Models by_job = run_loops(job.load(settings), {}),
                   by_loop = run_loops(job.load(settings), own_steps());
      // who meets whom when goes by how busy the machine is, and residues round either way
      const float near = name == "pairwise" ? 4.0f : name == "moniqua" ? 0.1f : 1e-4f;
      for (std::size_t p = 0; p < by_job.size(); ++p)
        for (std::size_t k = 0; k < kFloats; ++k) REQUIRE(std::abs(by_job[p][k] - by_loop[p][k]) < near);
    }
  }
}

TEST_CASE("what has no gradient is averaged as the loops change it, exactly, whatever the codec") {
  const LoopJob job(3);
  struct Case {
    std::string method, codec;
    bool own;
  };
  const auto given = GENERATE(values<Case>({{"allreduce", "dense", false},
                                            {"allreduce", "dense", true},
                                            {"allreduce", "onebit_scaled", false},
                                            {"choco", "onebit_scaled", false},
                                            {"choco", "topk:density=0.1", true},
                                            {"dpsgd", "dense", true},
                                            {"diloco", "dense", true}}));
  const std::string &method = given.method, &codec = given.codec;
  const bool own = given.own;
  CAPTURE(method, codec, own);
  const Job full = job.load({"exchange.method=" + method, "exchange.codec=" + codec, "run.rounds=304",
                             "optimizer.learning_rate=0.02"});
  std::vector<TensorSpec> tensors = kTensors;
  tensors.insert(tensors.begin(), {"running", {3}, true});
  std::vector<std::unique_ptr<TrainingLoop>> loops;
  LoopOptions options;
  options.own_steps = own;
  for (std::size_t p = 0; p < 3; ++p)
    loops.push_back(std::make_unique<TrainingLoop>(full, fmt::format("peer{}", p), tensors, options));
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      TrainingLoop& loop = *loops[p];
      while (loop.wait()) {
        for (float& s : loop.changing(0)) s += 0.1f * (static_cast<float>(p) - s);  // as batches have it
        for (std::size_t t = 1; t < 3; ++t) {
          pull(p, loop.parameters(t), loop.gradient(t), 0);
          if (!own || loop.steps_by_mean()) continue;
          for (std::size_t i = 0; i < loop.changing(t).size(); ++i)
            loop.changing(t)[i] -= kRate * loop.gradient(t)[i];
        }
        loop.post(1, 8);
        if (own && loop.steps_by_mean() && loop.wait_for_mean())
          for (std::size_t t = 1; t < 3; ++t)
            for (std::size_t i = 0; i < loop.changing(t).size(); ++i)
              loop.changing(t)[i] -= kRate * loop.gradient(t)[i];
      }
      CHECK(loop.finish().outcome == Outcome::finished);
    });
  threads.clear();
  const float near = method == "choco" ? 0.7f : 0.25f;  // a coarse code lets peers follow slowly
  for (const auto& loop : loops)
    for (const float s : loop->parameters(0)) CHECK(std::abs(s - 1.0f) < near);  // the mean of 0, 1 and 2
  if (method == "allreduce")
    for (const auto& loop : loops)
      CHECK(std::equal(loop->parameters(0).begin(), loop->parameters(0).end(),
                       loops[0]->parameters(0).begin()));
}

TEST_CASE("who joins a full reduce takes over what the loops keep, and all stay the same to the bit") {
  const LoopJob job(2);
  const Job full = job.load({"exchange.method=allreduce", "run.min_peers=1", "run.rounds=2000"});
  std::atomic<bool> late_trains = false;
  Models models(3), kept(3);
  const auto run = [&](std::size_t p, LoopOptions options) {
    const std::string name = p < 2 ? fmt::format("peer{}", p) : "late";
    TrainingLoop loop(full, name, kTensors, std::move(options));
    while (loop.wait()) {
      if (p == 2) late_trains = true;
      turn(loop, p);
      if (p == 0 && !late_trains) test::pause(0.005);  // there is time to join
    }
    const PeerResult result = loop.finish();
    INFO(result.message);
    CHECK(result.outcome == Outcome::finished);
    models[p] = model_of(loop);
    for (std::size_t t = 0; t < 2; ++t)
      kept[p].insert(kept[p].end(), loop.kept(t).begin(), loop.kept(t).end());
  };
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < 2; ++p)
    threads.emplace_back([&, p] {
      LoopOptions options = own_steps();
      options.rows = 100;
      run(p, std::move(options));
    });
  test::pause(0.5);
  threads.emplace_back([&] {
    LoopOptions options = own_steps();
    options.peer.join = fmt::format("tcp://127.0.0.1:{}", job.ports.first());
    options.rows = 100;
    run(2, std::move(options));
  });
  threads.clear();
  CHECK(late_trains);
  CHECK(models[0] == models[1]);
  CHECK(models[0] == models[2]);
  CHECK(kept[0] == kept[1]);
  CHECK(kept[0] == kept[2]);
  CHECK(std::abs(kept[0][0]) < 1.0f);
}

TEST_CASE("loops are told which rows a batch is made of, ahead, and together take each once in an epoch") {
  const LoopJob job(3);
  const std::size_t rows = 100;
  std::vector<std::int32_t> labels(rows);
  for (std::size_t r = 0; r < rows; ++r) labels[r] = static_cast<std::int32_t>(r % 4);
  const std::string split = GENERATE("local_shuffle", "global_shuffle", "dirichlet:0.5");
  CAPTURE(split);
  const Job full = job.load({"exchange.method=dpsgd", "data.split=" + split, "run.rounds=12"});
  std::vector<std::vector<std::uint32_t>> taken(3);
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      LoopOptions options;
      options.rows = rows;
      options.labels = labels;
      TrainingLoop loop(full, fmt::format("peer{}", p), kTensors, options);
      CHECK(loop.steps_per_epoch() == 4);  // 100 rows, 3 peers × 8
      std::vector<std::uint32_t> next;
      for (std::uint64_t step = 0; loop.wait(); ++step) {
        CHECK(loop.step() == step);
        const std::vector<std::uint32_t> now = loop.rows_of(step);
        if (step > 0) CHECK(now == next);
        next = loop.rows_of(step + 1);
        if (step < 4) taken[p].insert(taken[p].end(), now.begin(), now.end());
        compute(loop, p);
        loop.post(1, 8);
        CHECK(loop.step() == step + 1);
      }
      CHECK(loop.finish().outcome == Outcome::finished);
    });
  threads.clear();
  std::vector<std::size_t> seen(rows);
  for (const auto& peers_rows : taken) {
    CHECK(peers_rows.size() == 32);
    for (const std::uint32_t row : peers_rows) {
      REQUIRE(row < rows);
      ++seen[row];
    }
  }
  if (split != "dirichlet:0.5") CHECK(*std::max_element(seen.begin(), seen.end()) == 1);
}

TEST_CASE("loops go on from a checkpoint with what they keep, to the same bits") {
  const LoopJob job(2);
  const std::string method = GENERATE("allreduce", "dpsgd");
  CAPTURE(method);
  const std::vector<std::string> settings{"exchange.method=" + method, "run.checkpoint_every=20",
                                          "run.min_peers=0"};
  const Models whole = run_loops(job.load(settings), own_steps());
  const Folder folder;
  LoopOptions first = own_steps();
  first.checkpoints = folder.path("run");
  auto shorter = settings;
  shorter.push_back("run.rounds=40");
  run_loops(job.load(shorter), first);
  LoopOptions second = own_steps();
  second.peer.resume = folder.path("run");
  CHECK(run_loops(job.load(settings), second) == whole);
}

TEST_CASE("a loop that is left between the mean and its step ends its peer, and the others go on") {
  const LoopJob job(3);
  const Job full = job.load({"exchange.method=allreduce", "run.min_peers=1", "run.rounds=400"});
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      TrainingLoop loop(full, fmt::format("peer{}", p), kTensors, own_steps());
      for (int round = 0; loop.wait(); ++round) {
        if (p == 2 && round == 10) {
          compute(loop, p);
          loop.post(1, 8);
          CHECK(loop.wait_for_mean());
          CHECK(loop.finish().outcome == Outcome::interrupted);
          return;
        }
        turn(loop, p);
      }
      CHECK(loop.finish().outcome == Outcome::finished);
    });
}

TEST_CASE(
    "what a loop that is left has learned is saved with at most a round of zeros, and all save the same") {
  const LoopJob job(2);
  const bool both = GENERATE(true, false), computing = GENERATE(true, false);
  CAPTURE(both, computing);
  const Job full = job.load({"exchange.method=dpsgd", "run.rounds=100000", "run.min_peers=2"});
  const Folder folder;
  Models kept(2);
  const auto each = [](const std::function<void(std::size_t)>& work) {
    const std::jthread other(work, 1);
    work(0);
  };
  each([&](std::size_t p) {
    LoopOptions options = own_steps();
    options.checkpoints = folder.path(fmt::format("{}", p));
    TrainingLoop loop(full, fmt::format("peer{}", p), kTensors, options);
    const bool leaves = p == 0 || both;
    for (int round = 0; round < (leaves ? 20 : 100000) && loop.wait(); ++round) turn(loop, p);
    if (leaves && computing) CHECK(loop.wait());
    kept[p].assign(loop.kept(0).begin(), loop.kept(0).end());
    const PeerResult result = loop.finish();
    INFO(result.message);
    CHECK(result.outcome == (leaves ? Outcome::interrupted : Outcome::lost_peer));
    if (leaves) CHECK_THAT(result.message, ContainsSubstring("last round was without its gradient"));
  });
  std::vector<std::uint64_t> steps(2);
  std::latch both_went_on(2);
  each([&](std::size_t p) {
    LoopOptions options = own_steps();
    options.peer.resume = folder.path(fmt::format("{}", p));
    TrainingLoop loop(full, fmt::format("peer{}", p), kTensors, options);
    CHECK(loop.wait());
    steps[p] = loop.step();
    if (p == 0 || both) CHECK(std::equal(kept[p].begin(), kept[p].end(), loop.kept(0).begin()));
    both_went_on.arrive_and_wait();
  });
  CHECK(steps == std::vector<std::uint64_t>{21, 21});
}

TEST_CASE("own steps are refused where they cannot work, and calls out of turn are said") {
  const LoopJob job(2);
  const auto refusal = [&](const std::vector<std::string>& settings, LoopOptions options,
                           const std::vector<TensorSpec>& tensors = kTensors) {
    return error_of([&] { TrainingLoop(job.load(settings), "peer0", tensors, std::move(options)); });
  };
  CHECK_THAT(refusal({"exchange.method=allreduce", "exchange.codec=onebit_scaled"}, own_steps()),
             ContainsSubstring("must know the optimiser's momentum"));
  CHECK_THAT(refusal({"exchange.method=broadcast", "exchange.codec=qsgd", "exchange.backup=1",
                      "exchange.staleness=1"},
                     own_steps()),
             ContainsSubstring("in different rounds"));
  CHECK_THAT(refusal({"exchange.method=moniqua"}, {}, {{"x", {8}}, {"running", {3}, true}}),
             ContainsSubstring("does not average 'running'"));
  LoopOptions both = own_steps();
  both.optimizer = [](std::size_t) { return optim::make_optimizer({}, 64); };
  CHECK_THAT(refusal({"exchange.method=dpsgd"}, both), ContainsSubstring("expected one of them"));
  TrainingLoop loop(job.load({"exchange.method=dpsgd"}), "peer0", kTensors, own_steps());
  CHECK_THAT(error_of([&] { loop.wait_for_mean(); }), ContainsSubstring("no mean to step by"));
  CHECK_THAT(error_of([&] { loop.kept(2); }), ContainsSubstring("kept array 2: there are 2"));
  CHECK_FALSE(loop.steps_by_mean());
  CHECK_THAT(error_of([&] { loop.remember({}); }), ContainsSubstring("expected it between wait and post"));
}
