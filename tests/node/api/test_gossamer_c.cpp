// The C API: two peers as a C program has them, what it refuses, and what a forked child is told.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "gossamer.h"
#include "gossamer_test/catch.h"
#include "process.h"

using gossamer::test::Folder;
using gossamer::test::Ports;

namespace {

const std::size_t kFirst[] = {16}, kSecond[] = {4, 6};

struct Job {
  explicit Job(const std::string& run = "rounds = 40") {
    std::string text =
        "[graph]\nkind = \"full\"\n[optimizer]\nlearning_rate = 0.2\nbatch = 8\n"
        "[exchange]\nmethod = \"dpsgd\"\ncodec = \"dense\"\n[run]\njoin_timeout = 20\nreport_every = 0.05\n" +
        run + "\n";
    for (int p = 0; p < 2; ++p)
      text += fmt::format("[[peer]]\nname = \"peer{}\"\naddress = \"tcp://127.0.0.1:{}\"\n", p,
                          ports.first() + p);
    path = folder.write("job.toml", text);
  }
  gs_status open(const std::string& name, gs_peer** peer, const gs_options* options = nullptr,
                 const float* initial = nullptr) const {
    const gs_tensor tensors[] = {{"first", kFirst, 1, initial, 0}, {"second", kSecond, 2, nullptr, 0}};
    const gs_status status = gs_open(path.c_str(), nullptr, 0, name.c_str(), tensors, 2, options, peer);
    UNSCOPED_INFO(gs_error());
    return status;
  }
  Folder folder;
  Ports ports{2};
  std::string path;
};

/// x goes to 3 + the peer's number, were it alone. Gives what ended it.
gs_status turn(gs_peer* peer, std::size_t p) {
  for (std::size_t t = 0; t < 2; ++t) {
    const float* x = gs_parameters(peer, t);
    float* g = gs_gradient(peer, t);
    for (std::size_t i = 0; i < gs_floats(peer, t); ++i) g[i] = x[i] - 3.0f - static_cast<float>(p);
    if (t == 1 && gs_ready(peer, t) != GS_OK) return GS_FAILED;
  }
  return gs_post(peer, 0.5, 8);
}

gs_status train(gs_peer* peer, std::size_t p) {
  for (;;) {
    if (const gs_status status = gs_wait(peer, -1); status != GS_OK) return status;
    if (const gs_status status = turn(peer, p); status != GS_OK) return status;
  }
}

}  // namespace

TEST_CASE("two peers of a C program learn together, and one saves the model") {
  const Job job;
  REQUIRE(gs_abi() == GS_ABI);
  REQUIRE(std::string(gs_version()).size() > 2);
  std::vector<float> initial(16, 1.5f);
  gs_peer* peers[2];
  for (std::size_t p = 0; p < 2; ++p)
    REQUIRE(job.open(fmt::format("peer{}", p), &peers[p], nullptr, initial.data()) == GS_OK);
  CHECK(gs_parameters(peers[0], 0)[7] == 1.5f);
  std::fill(initial.begin(), initial.end(), 99.0f);  // they were copied
  const float* before = gs_parameters(peers[0], 1);
  gs_status ends[2];
  {
    std::jthread other([&] { ends[1] = train(peers[1], 1); });
    ends[0] = train(peers[0], 0);
  }
  for (std::size_t p = 0; p < 2; ++p) {
    INFO(gs_error());
    CHECK(ends[p] == GS_DONE);
    CHECK(gs_wait(peers[p], 0) == GS_DONE);
    for (std::size_t t = 0; t < 2; ++t) CHECK(std::abs(gs_parameters(peers[p], t)[3] - 3.5f) < 0.2f);
  }
  CHECK(gs_parameters(peers[0], 1) == before);
  const std::string saved = job.folder.path("model.safetensors");
  REQUIRE(gs_save(peers[0], saved.c_str()) == GS_OK);
  std::ifstream file(saved, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  CHECK_THAT(bytes, ContainsSubstring("\"format\":\"pt\"") && ContainsSubstring("\"second\""));
  CHECK(std::memcmp(bytes.data() + bytes.size() - 24 * sizeof(float), before, 24 * sizeof(float)) == 0);
  CHECK(gs_save(peers[0], "/nowhere/at/all.safetensors") == GS_BAD_INPUT);
  for (gs_peer* peer : peers) gs_close(peer);
  gs_close(nullptr);
}

TEST_CASE("a C program waits for so long as it likes, sees how it goes, and is interrupted") {
  const Job job("rounds = 100000000\nstall_timeout = 60");
  gs_peer* peers[2];
  const std::string log = job.folder.path("log");
  gs_options options{};
  options.size = sizeof options;
  options.log = log.c_str();
  REQUIRE(job.open("peer0", &peers[0], &options) == GS_OK);
  CHECK(gs_wait(peers[0], 0.05) == GS_TIMEOUT);  // the other is not there yet
  gs_progress progress;
  REQUIRE(gs_report(peers[0], &progress, sizeof progress) == GS_OK);
  CHECK(progress.round == 0);
  CHECK(std::isnan(progress.loss));
  REQUIRE(job.open("peer1", &peers[1]) == GS_OK);
  gs_status other_end = GS_OK;
  {
    std::jthread other([&] { other_end = train(peers[1], 1); });
    while (progress.round < 20) {
      REQUIRE(gs_wait(peers[0], 20) == GS_OK);
      REQUIRE(turn(peers[0], 0) == GS_OK);
      REQUIRE(gs_report(peers[0], &progress, sizeof progress) == GS_OK);
    }
    CHECK(progress.peers == 2);
    CHECK(progress.loss == 0.5);
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(gs_interrupt(peers[0]) == GS_OK);
    REQUIRE(gs_interrupt(peers[1]) == GS_OK);
    CHECK(train(peers[0], 0) == GS_INTERRUPTED);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CHECK_THAT(gs_error(), ContainsSubstring("in round"));
  }
  CHECK(other_end == GS_INTERRUPTED);
  for (gs_peer* peer : peers) gs_close(peer);
  std::ifstream lines(log);
  const std::string told((std::istreambuf_iterator<char>(lines)), {});
  CHECK_THAT(told, ContainsSubstring("all 2 peers are here"));
}

TEST_CASE("a C program that leaves its loop in the last round is not done, and posts nothing after that") {
  const Job job("rounds = 2\nmin_peers = 2");
  gs_peer* peers[2];
  const std::string folders[] = {job.folder.path("0"), job.folder.path("1")};
  gs_options options{};
  options.size = sizeof options;
  for (std::size_t p = 0; p < 2; ++p) {
    options.checkpoints = folders[p].c_str();
    REQUIRE(job.open(fmt::format("peer{}", p), &peers[p], &options) == GS_OK);
  }
  const auto leave = [&](std::size_t p) {
    CHECK(gs_wait(peers[p], 20) == GS_OK);
    CHECK(turn(peers[p], p) == GS_OK);
    CHECK(gs_wait(peers[p], 20) == GS_OK);
    CHECK(gs_end(peers[p]) == GS_INTERRUPTED);
    CHECK_THAT(gs_error(), ContainsSubstring("last round was without its gradient"));
    CHECK(gs_post(peers[p], 0.5, 8) == GS_MISUSE);
  };
  {
    std::jthread other(leave, 1);
    leave(0);
  }
  for (gs_peer* peer : peers) gs_close(peer);
}

TEST_CASE("what a C program does wrong is said, and kills nothing") {
  const Job job;
  gs_peer* peer = nullptr;
  CHECK(gs_open(nullptr, nullptr, 0, "peer0", nullptr, 0, nullptr, &peer) == GS_MISUSE);
  CHECK_THAT(gs_error(), ContainsSubstring("null pointer"));
  CHECK(gs_wait(nullptr, 0) == GS_MISUSE);
  CHECK(gs_parameters(nullptr, 0) == nullptr);

  const gs_tensor one[] = {{"x", kFirst, 1, nullptr, 0}};
  CHECK(gs_open("/no/such/job.toml", nullptr, 0, "peer0", one, 1, nullptr, &peer) == GS_BAD_INPUT);
  CHECK_THAT(gs_error(), ContainsSubstring("/no/such/job.toml"));
  const char* wrong[] = {"exchange.method=dpgsd"};
  CHECK(gs_open(job.path.c_str(), wrong, 1, "peer0", one, 1, nullptr, &peer) == GS_BAD_INPUT);
  CHECK_THAT(gs_error(), ContainsSubstring("dpsgd"));
  CHECK(job.open("peer7", &peer) == GS_BAD_INPUT);
  CHECK_THAT(gs_error(), ContainsSubstring("peer7"));
  const gs_tensor twice[] = {{"x", kFirst, 1, nullptr, 0}, {"x", kFirst, 1, nullptr, 0}};
  CHECK(gs_open(job.path.c_str(), nullptr, 0, "peer0", twice, 2, nullptr, &peer) == GS_BAD_INPUT);
  CHECK_THAT(gs_error(), ContainsSubstring("'x'"));
  CHECK(gs_open(job.path.c_str(), nullptr, 0, "peer0", one, 0, nullptr, &peer) == GS_MISUSE);
  const std::size_t none[] = {4, 0}, many[] = {1u << 30, 1u << 30};
  const gs_tensor empty[] = {{"x", none, 2, nullptr, 0}}, huge[] = {{"x", many, 2, nullptr, 0}};
  CHECK(gs_open(job.path.c_str(), nullptr, 0, "peer0", empty, 1, nullptr, &peer) == GS_MISUSE);
  CHECK(gs_open(job.path.c_str(), nullptr, 0, "peer0", huge, 1, nullptr, &peer) == GS_BAD_INPUT);
  gs_options options{};
  options.size = sizeof options + 8;
  CHECK(job.open("peer0", &peer, &options) == GS_MISUSE);
  CHECK_THAT(gs_error(), ContainsSubstring("older than the header that the program was compiled with"));
  gs_simulation simulation{};
  simulation.size = sizeof simulation;
  simulation.gradient = [](void*, size_t, uint64_t, const uint32_t*, size_t, float* const*, float* const*,
                           double*) -> int64_t { return int64_t{1} << 60; };
  gs_simulated* simulated = nullptr;
  REQUIRE(gs_simulate(job.path.c_str(), nullptr, 0, one, 1, &simulation, &simulated) == GS_OK);
  gs_ending ending;
  CHECK(gs_simulated_end(simulated, 0, &ending, sizeof ending) != GS_DONE);
  CHECK_THAT(gs_error(), ContainsSubstring("1152921504606846976 samples in a batch; expected at most"));
  gs_simulated_free(simulated);
  options.size = sizeof options;
  options.checkpoints = job.path.c_str();
  CHECK(job.open("peer0", &peer, &options) == GS_BAD_INPUT);
  CHECK_THAT(gs_error(),
             ContainsSubstring("checkpoints cannot be kept in") && ContainsSubstring("cannot be made"));
  options.checkpoints = nullptr;
  options.log = "/nowhere/log";
  CHECK(job.open("peer0", &peer, &options) == GS_BAD_INPUT);
  CHECK(peer == nullptr);

  REQUIRE(job.open("peer0", &peer) == GS_OK);
  CHECK(gs_post(peer, 0, 8) == GS_MISUSE);
  CHECK_THAT(gs_error(), ContainsSubstring("wait"));
  CHECK(gs_floats(peer, 1) == 24);
  CHECK(gs_floats(peer, 2) == 0);
  CHECK(gs_gradient(peer, 2) == nullptr);
  CHECK_THAT(gs_error(), ContainsSubstring("tensor 2"));
  CHECK(gs_wait(peer, std::nan("")) == GS_MISUSE);
  CHECK(gs_remember(peer, "a", 1) == GS_MISUSE);
  CHECK_THAT(gs_error(), ContainsSubstring("between wait and post"));
  CHECK(gs_save(peer, job.folder.path("m").c_str()) == GS_MISUSE);
  gs_progress progress;
  CHECK(gs_report(peer, &progress, sizeof progress + 1) == GS_MISUSE);
  CHECK(gs_end(peer) == GS_INTERRUPTED);
  CHECK(gs_wait(peer, 1) == GS_INTERRUPTED);
  CHECK(gs_post(peer, 0, 8) == GS_MISUSE);
  CHECK(gs_parameters(peer, 1)[23] == 0);
  gs_close(peer);
}

TEST_CASE(
    "C programs whose arrays differ in shape, or whose rules differ where all step alike, are refused") {
  const std::string what = GENERATE("shape", "rule of the mean", "rule of its own");
  const Job job("rounds = 3");
  const std::size_t other[] = {6, 4};
  const char* overrides[] = {"exchange.method=allreduce"};
  gs_peer* peers[2];
  for (std::size_t p = 0; p < 2; ++p) {
    const bool differs = p == 1;
    gs_options options{};
    options.size = sizeof options;
    options.own_steps = what != "shape";
    options.alike_steps = differs ? "steps of SGD" : "steps of Adam";
    const gs_tensor tensors[] = {{"first", kFirst, 1, nullptr, 0},
                                 {"second", differs && what == "shape" ? other : kSecond, 2, nullptr, 0}};
    REQUIRE(gs_open(job.path.c_str(), overrides, what == "rule of the mean", fmt::format("peer{}", p).c_str(),
                    tensors, 2, &options, &peers[p]) == GS_OK);
  }
  const gs_status status = gs_wait(peers[0], 20);
  const std::string error = gs_error();
  INFO(what << ": " << error);
  CHECK(status == (what == "rule of its own" ? GS_OK : GS_BAD_INPUT));
  if (what == "shape")
    CHECK(gossamer::test::says(error, "loop.arrays: here \"first (16), second (4, 6)\", there"));
  if (what == "rule of the mean")
    CHECK(gossamer::test::says(error, "loop.steps: here \"steps of Adam\", there \"steps of SGD"));
  for (gs_peer* peer : peers) gs_close(peer);
}

TEST_CASE("a forked child is refused, and its parent trains on") {
  const Job job;
  gs_peer* peers[2];
  for (std::size_t p = 0; p < 2; ++p) REQUIRE(job.open(fmt::format("peer{}", p), &peers[p]) == GS_OK);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = gs_wait(peers[0], 1) == GS_MISUSE && std::strstr(gs_error(), "forked") != nullptr;
    gs_close(peers[0]);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  {
    std::jthread other([&] { CHECK(train(peers[1], 1) == GS_DONE); });
    CHECK(train(peers[0], 0) == GS_DONE);
  }
  for (gs_peer* peer : peers) gs_close(peer);
}

TEST_CASE("C programs step by the mean with what they keep, are dealt rows and know who is there") {
  const Job job("rounds = 40\nmin_peers = 1");
  const char* settings[] = {"exchange.method=allreduce"};
  const std::vector<float> initial(16, 2.0f), velocity(16, 0.25f);
  const gs_tensor tensors[] = {{"first", kFirst, 1, initial.data(), 0}, {"running", kFirst, 1, nullptr, 1}};
  const gs_tensor kept[] = {{"velocity", kFirst, 1, velocity.data(), 0}, {"count", nullptr, 0, nullptr, 0}};
  gs_options options{};
  options.size = sizeof options;
  options.own_steps = 1;
  options.kept = kept;
  options.kept_count = 2;
  options.rows = 64;
  const gs_tensor shapeless[] = {{"velocity", nullptr, 1, nullptr, 0}};
  gs_options wrong = options;
  wrong.kept = shapeless;
  wrong.kept_count = 1;
  gs_peer* none = nullptr;
  CHECK(gs_open(job.path.c_str(), settings, 1, "peer0", tensors, 2, &wrong, &none) == GS_MISUSE);
  CHECK_THAT(gs_error(), ContainsSubstring("no shape"));
  std::vector<std::jthread> threads;
  std::vector<std::vector<float>> ends(2);
  for (std::size_t p = 0; p < 2; ++p)
    threads.emplace_back([&, p] {
      gs_peer* peer = nullptr;
      const std::string name = fmt::format("peer{}", p);
      REQUIRE(gs_open(job.path.c_str(), settings, 1, name.c_str(), tensors, 2, &options, &peer) == GS_OK);
      CHECK(gs_steps_by_mean(peer) == 1);
      CHECK(gs_steps_per_epoch(peer) == 4);
      float *x = gs_changing(peer, 0), *g = gs_gradient(peer, 0), *running = gs_changing(peer, 1);
      float *v = gs_kept(peer, 0), *count = gs_kept(peer, 1);
      CHECK(v[15] == 0.25f);
      CHECK(gs_kept(peer, 2) == nullptr);
      gs_status status;
      while ((status = gs_wait(peer, 20)) == GS_OK) {
        CHECK(std::string(gs_members(peer)) == "peer0\npeer1\n");
        std::uint32_t rows[9] = {};
        std::size_t rows_count = 0;
        CHECK(gs_batch(peer, gs_step(peer), rows, 9, &rows_count) == GS_OK);
        CHECK(rows_count == 8);
        CHECK(rows[7] < 64);
        for (std::size_t i = 0; i < 16; ++i) {
          g[i] = x[i] - static_cast<float>(p);
          running[i] = static_cast<float>(p);
        }
        CHECK(gs_wait_mean(peer, 0) == GS_MISUSE);
        CHECK(gs_post(peer, 0.5, 8) == GS_OK);
        if ((status = gs_wait_mean(peer, 20)) != GS_OK) break;
        for (std::size_t i = 0; i < 16; ++i) x[i] -= 0.3f * (v[i] = 0.5f * v[i] + g[i]);
        *count += 1;
      }
      CHECK(status == GS_DONE);
      CHECK(*count == 40.0f);
      CHECK(std::abs(running[3] - 0.5f) < 1e-6f);
      ends[p].assign(x, x + 16);
      gs_close(peer);
    });
  threads.clear();
  CHECK(ends[0] == ends[1]);
  CHECK(std::abs(ends[0][7] - 0.5f) < 0.01f);
}
