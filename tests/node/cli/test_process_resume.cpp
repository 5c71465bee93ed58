// Runs that are killed, told to end, or lose their disk, and go on from what they had saved.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "process.h"

namespace gossamer::test {
namespace {

namespace fs = std::filesystem;
constexpr int kBad = 2, kInterrupted = 130;
using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words setting(const std::string& key_value) { return {"--set", key_value}; }

std::string model_of(const Folder& folder, const std::string& run) {
  std::string all;
  for (int p = 0; p < 4; ++p)
    all += tensors(folder.path("") + "/" + run + "/peers/peer" + std::to_string(p) + ".safetensors");
  return all;
}

std::size_t rounds_kept(const Folder& folder, const std::string& run) {
  const fs::path at = folder.path("") + "/" + run + "/checkpoints";
  if (!fs::exists(at)) return 0;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(at), fs::directory_iterator()));
}

/// Starts a run, and waits until it has saved so often.
std::unique_ptr<Process> started(const Folder& folder, const std::string& out, const Words& words,
                                 std::size_t saves) {
  auto run =
      std::make_unique<Process>(folder.path(""), out, Words{"run", "job.toml", "--out", out, "-q"} + words);
  INFO(run->err());
  REQUIRE(wait_until(60, [&] { return rounds_kept(folder, out) >= saves || run->status(); }));
  return run;
}

void kill_one(const Process& run) {
  const auto peers = run.children();
  REQUIRE(peers.size() == 4);
  kill(peers[1], SIGKILL);
}

/// What `later` tells, which went on from two thirds of what `whole` is: samples of both, all else its own.
void check_figures_of_a_third(const Folder& folder, const std::string& whole, const std::string& later) {
  const auto summary = [&](const std::string& run) {
    return nlohmann::json::parse(read_text(folder.path("") + "/" + run + "/summary.json"));
  };
  const auto all = summary(whole), last = summary(later);
  const auto samples_taken = [](const nlohmann::json& s) {
    return s.at("samples_per_second").get<double>() * s.at("seconds").get<double>();
  };
  CHECK(last.at("samples") == all.at("samples"));
  CHECK(last.at("steps") == all.at("steps"));
  CHECK(samples_taken(last) == Approx(samples_taken(all) / 3));
  CHECK(last.at("bits_per_step").get<double>() ==
        Approx(all.at("bits_per_step").get<double>()).epsilon(0.02));
}

struct Course {
  const char *graph, *method, *codec, *optimizer;
};

}  // namespace

TEST_CASE("a run of which a peer is killed goes on, twice in a row, to the bits of one that never stopped") {
  Drawn drawn(2);
  for (const Course& c :
       {Course{"ring", "choco", "topk:density=0.1", "momentum"},
        Course{"full", "allreduce", "qsgd:bits=8", "momentum"},
        Course{"ring", "dpsgd", "dense", "quasi_global"}, Course{"full", "diloco", "qsgd:bits=4", "momentum"},
        Course{"ring", "moniqua", "dense", "sgd"}, Course{"full", "broadcast", "onebit_scaled", "sgd"}}) {
    if (!drawn()) continue;
    INFO(c.method << " " << c.codec);
    const Ports ports(4);
    const Folder folder;
    folder.write("job.toml", SmallJob{.base_port = ports.first(),
                                      .graph = c.graph,
                                      .method = c.method,
                                      .codec = c.codec,
                                      .rounds = 2000,
                                      .min_peers = 0}
                                 .toml());
    const Words words = setting(std::string("optimizer.kind=") + c.optimizer) +
                        setting("run.checkpoint_every=100") + setting("run.stall_timeout=30");
    const Ended whole = gossamer(folder, Words{"run", "job.toml", "--out", "whole", "-q"} + words);
    INFO(whole.err);
    REQUIRE(whole.status == 0);

    auto first = started(folder, "first", words, 2);
    if (!first->status()) kill_one(*first);
    REQUIRE(first->wait(60));
    auto second = started(folder, "second", words + Words{"--resume", "first"}, 1);
    if (!second->status()) second->signal(SIGTERM);
    REQUIRE(second->wait(60));
    const Ended third = gossamer(folder, Words{"run", "--resume", "second", "--out", "third", "-q"} + words);
    INFO(third.err);
    REQUIRE(third.status == 0);
    CHECK(says(third.err, "to the same bits"));
    CHECK(model_of(folder, "third") == model_of(folder, "whole"));
    CHECK(says(read_text(folder.path("") + "/third/resumed.json"), "second"));
    CHECK(says(read_text(folder.path("") + "/third/metrics.jsonl"), "\"event\":\"resumed\""));
  }
}

TEST_CASE("a run is gone on with by an optimiser that keeps other state") {
  const Ports ports(2);
  const Folder folder;
  folder.write("job.toml", SmallJob{.peers = 2, .base_port = ports.first(), .rounds = 200}.toml());
  REQUIRE(
      gossamer(folder, Words{"run", "job.toml", "--out", "first", "-q"} + setting("run.checkpoint_every=100"))
          .status == 0);
  const Ended second = gossamer(folder, Words{"run", "--resume", "first", "--out", "second", "-q"} +
                                            setting("optimizer.kind=adam") + setting("run.rounds=300"));
  INFO(second.err);
  CHECK(second.status == 0);
  CHECK(says(second.err, "with parameters, position and a new optimiser"));
  const Ended onto = gossamer(folder, Words{"run", "job.toml", "--out", "first", "-q"});
  CHECK(onto.status == 2);
  CHECK(says(onto.err, "--out first: holds a run already; expected a new folder, or `--resume first`"));
}

TEST_CASE("a run that was killed before all its peers had saved is gone on with where its parent was saved") {
  const Ports ports(4);
  const Folder folder;
  folder.write("job.toml", SmallJob{.base_port = ports.first(), .rounds = 300}.toml());
  const Words words = setting("run.checkpoint_every=100");
  REQUIRE(gossamer(folder, Words{"run", "job.toml", "--out", "first", "-q"} + words).status == 0);
  const fs::path at = folder.path(""), torn = at / "second/checkpoints/round-000000000250";
  fs::create_directories(torn);
  fs::copy(at / "first/checkpoints/round-000000000200", torn);
  for (const auto& file : fs::directory_iterator(torn))
    if (file.path().filename().string().starts_with("peer3")) fs::remove(file.path());
  fs::copy(at / "first/job.toml", at / "second/job.toml");
  folder.write("second/resumed.json", "{\"parent\": \"" + (at / "first").string() + "\"}");
  const Ended third = gossamer(folder, Words{"run", "--resume", "second", "--out", "third"} + words);
  INFO(third.err);
  CHECK(third.status == 0);
  CHECK(says(third.err, "going on from round 200 of"));
  CHECK(says(third.err, "first"));
  CHECK(model_of(folder, "third") == model_of(folder, "first"));
  check_figures_of_a_third(folder, "first", "third");
}

TEST_CASE("a run that is told to end saves first, and says how to go on; a second signal ends it at once") {
  const Ports ports(4);
  const Folder folder;
  folder.write("job.toml", SmallJob{.base_port = ports.first(), .rounds = kForever}.toml());
  Process run(folder.path(""), "run", {"run", "job.toml", "--out", "out"});
  REQUIRE(wait_until(30, [&] {
    return read_text(folder.path("out/peers/peer0.log")).find("training 1000000000 rounds") !=
           std::string::npos;
  }));
  pause(0.3);
  const auto begin = Clock::now();
  run.signal(SIGTERM);
  REQUIRE(run.wait(20));
  CHECK(seconds_since(begin) < 10);
  CHECK(run.status() == kInterrupted);
  CHECK(rounds_kept(folder, "out") == 1);
  INFO(run.err());
  CHECK(says(run.err(), "--resume out"));
  const Ended verified = gossamer(folder, {"checkpoint", "verify", "out"});
  INFO(verified.err << verified.out);
  CHECK(verified.status == 0);
}

TEST_CASE("what cannot be gone on from is refused, with what there is") {
  const Ports ports(4);
  const Folder folder;
  folder.write("job.toml", SmallJob{.base_port = ports.first(), .rounds = 400}.toml());
  CHECK(gossamer(folder, {"run", "job.toml", "--resume", "nowhere"}).status == kBad);
  fs::create_directories(folder.path("") + "/empty");
  const Ended empty = gossamer(folder, {"run", "job.toml", "--resume", "empty"});
  CHECK(empty.status == kBad);
  CHECK(says(empty.err, "--resume empty: holds no checkpoints; expected"));
  CHECK(gossamer(folder, {"run"}).status != 0);

  REQUIRE(
      gossamer(folder, Words{"run", "job.toml", "--out", "out", "-q"} + setting("run.checkpoint_every=100"))
          .status == 0);
  const Ended other =
      gossamer(folder, Words{"run", "job.toml", "--resume", "out", "-q"} + setting("data.features=7"));
  INFO(other.err);
  CHECK(other.status == kBad);
  // another codec: with what was learned
  const Ended codec = gossamer(folder, Words{"run", "job.toml", "--resume", "out", "--out", "codec", "-q"} +
                                           setting("exchange.codec=qsgd:bits=4"));
  INFO(codec.err);
  CHECK(codec.status == 0);
  CHECK(says(codec.err,
             "residuals and estimates begin anew, so that it is not to the same bits: exchange.codec was"));
  // more peers
  const Ended more = gossamer(
      folder, Words{"run", "job.toml", "--resume", "out", "--out", "more", "-q"} + setting("peers=3"));
  INFO(more.err);
  CHECK(more.status == 0);
  // longer
  const Ended longer = gossamer(folder, Words{"run", "job.toml", "--resume", "out", "--out", "longer", "-q"} +
                                            setting("run.rounds=500"));
  INFO(longer.err);
  CHECK(longer.status == 0);
  CHECK(says(longer.err, "with all that was saved; not to the same bits: run.rounds was 400 and is 500"));
  // a run's folder as a model to start from: what it came to, or its newest checkpoint
  const Words from_out =
      Words{"run", "job.toml", "-q"} + setting("run.rounds=5") + setting("model.initial=out");
  CHECK(gossamer(folder, from_out + Words{"--out", "start1"}).status == 0);
  fs::remove(folder.path("out/model.safetensors"));
  const Ended from_checkpoint = gossamer(folder, from_out + Words{"--out", "start2"});
  INFO(from_checkpoint.err);
  CHECK(from_checkpoint.status == 0);
  // a flipped bit in the newest: the one before it
  std::fstream file(folder.path("") + "/out/checkpoints/round-000000000300/peer2.state",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('\x55');
  file.close();
  const Ended damaged = gossamer(folder, {"run", "job.toml", "--resume", "out", "--out", "damaged", "-q",
                                          "--set", "run.checkpoint_every=100"});
  INFO(damaged.err);
  CHECK(damaged.status == 0);
  CHECK(says(damaged.err, "passed over: "));
  CHECK(says(damaged.err, "going on from round 200 of out, to the same bits"));
  CHECK(model_of(folder, "damaged") == model_of(folder, "out"));
}

TEST_CASE("peers that wait for nobody go on from what they had learned") {
  const Ports ports(4);
  const Folder folder;
  folder.write(
      "job.toml",
      SmallJob{.base_port = ports.first(), .staleness = "\"unbounded\"", .rounds = 20000, .min_peers = 0}
          .toml());
  auto run = started(folder, "out", setting("run.checkpoint_every=0.2s"), 4);
  if (!run->status()) kill_one(*run);
  REQUIRE(run->wait(60));
  const Ended on = gossamer(
      folder, {"run", "job.toml", "--resume", "out", "--out", "on", "-q", "--set", "run.rounds=30000"});
  INFO(on.err);
  CHECK(on.status == 0);
  CHECK(says(on.err, "its peers wait for nobody"));
}

TEST_CASE("each peer by itself goes on from its own files, at the newest round that all have") {
  const Ports ports(4);
  const Folder folder;
  const std::string job =
      folder.write("job.toml", SmallJob{.base_port = ports.first(), .rounds = 600}.toml());
  const Words every = setting("run.checkpoint_every=100");
  for (const std::string out : {"a", "b"}) {
    std::vector<std::unique_ptr<Process>> peers;
    for (int p = 0; p < 4; ++p) {
      const std::string name = "peer" + std::to_string(p), at = out + std::to_string(p);
      Words words = Words{"peer", "job.toml", "--name", name, "--out", at} + every;
      if (out == "b") words = words + Words{"--resume", "a" + std::to_string(p)};
      peers.push_back(std::make_unique<Process>(folder.path(""), out + name, words));
    }
    for (auto& peer : peers) {
      REQUIRE(peer->wait(60));
      INFO(peer->err());
      CHECK(peer->status() == 0);
      if (out == "b") CHECK(says(peer->err(), "going on from the checkpoint of round 400"));
    }
    if (out == "a") fs::remove_all(folder.path("") + "/a2/checkpoints/round-000000000500");
  }
  for (int p = 0; p < 4; ++p) {
    const std::string file = std::to_string(p) + "/peer" + std::to_string(p) + ".safetensors";
    CHECK(tensors(folder.path("") + "/a" + file) == tensors(folder.path("") + "/b" + file));
  }
  // one that does not go on is told apart
  Process fresh(folder.path(""), "fresh",
                Words{"peer", "job.toml", "--name", "peer0", "--out", "c0"} + every);
  Process old(folder.path(""), "old",
              Words{"peer", "job.toml", "--name", "peer1", "--out", "c1", "--resume", "a1"} + every);
  REQUIRE(fresh.wait(30));
  REQUIRE(old.wait(30));
  CHECK(fresh.status() == kBad);
  CHECK(says(fresh.err(), "resumed.from: here nothing, there "));
}

TEST_CASE("peers of which one was killed and came back go on from their own files, and keep few") {
  const Ports ports(3);
  const Folder folder;
  folder.write("job.toml",
               SmallJob{3, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever}.toml());
  std::vector<std::unique_ptr<Process>> peers(3);
  const auto start = [&](int p, const Words& more = {}) {
    const std::string name = "peer" + std::to_string(p);
    const Words words{"peer", "job.toml", "--name", name, "--set", "run.checkpoint_every=0.2s"};
    peers[p] = std::make_unique<Process>(folder.path(""), name, words + more);
  };
  const auto own = [](const std::string& out, int p) { return out + std::to_string(p); };
  for (int p = 0; p < 3; ++p) start(p, {"--out", own("a", p)});
  for (int life = 0; life < 3; ++life) {
    REQUIRE(wait_until(30, [&] {
      const std::string log = peers[2]->err();
      return std::count(log.begin(), log.end(), '\n') > 5 && says(log, "checkpoint of round") &&
             log.find("checkpoint of", log.find("checkpoint of") + 1) != log.npos;
    }));
    peers[2]->signal(SIGKILL);
    peers[2]->wait(10);
    start(2, {"--out", own("a", 2)});
  }
  for (int p = 0; p < 3; ++p) REQUIRE(peers[p]->says_within(30, "3 of 3 peers go on"));
  pause(1);
  for (const auto& peer : peers) peer->signal(SIGTERM);
  for (const auto& peer : peers) CHECK(peer->wait(30) == kInterrupted);
  CHECK(rounds_kept(folder, own("a", 2)) <= 7);
  for (int p = 0; p < 3; ++p) start(p, {"--resume", own("a", p), "--out", own("b", p)});
  for (const auto& peer : peers) {
    CHECK(peer->says_within(30, "going on from the checkpoint of round"));
    CHECK(says(peer->err(), "not to the same bits: members had come or gone"));
  }
}

TEST_CASE("the best checkpoint of a peer's earlier start stands, and of the others as many as of its own") {
  const Ports ports(3);
  const Folder folder;
  folder.write("job.toml", SmallJob{3, ports.first(), "full", "allreduce", "dense", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 3,
              setting("run.checkpoint_every=50") + setting("optimizer.learning_rate=1e-9"));
  peers.start_all();
  const auto saved = [&] {  // by the peer that evaluates
    std::vector<std::string> rounds;
    for (const auto& round : fs::directory_iterator(folder.path("checkpoints")))
      if (fs::exists(round.path() / "peer0.json")) rounds.push_back(round.path().filename().string());
    std::sort(rounds.begin(), rounds.end());
    return rounds;
  };
  const auto at_least = [&](const std::string& round) {
    return fs::exists(folder.path("checkpoints")) && !saved().empty() && saved().back() >= round;
  };
  REQUIRE(wait_until(30, [&] { return at_least("round-000000000300"); }));
  peers[0].signal(SIGKILL);
  peers[0].wait(10);
  const std::vector<std::string> before = saved();
  peers.start(0);
  REQUIRE(peers[0].says_within(30, "3 of 3 peers go on"));
  REQUIRE(wait_until(
      30, [&] { return !fs::exists(folder.path("checkpoints/" + before.back() + "/peer0.json")); }));
  CHECK(saved().front() == "round-000000000050");  // no later one is better
  CHECK(saved().size() <= 8);
}

TEST_CASE("a run whose rate is too high goes back once, at half of it, then ends") {
  const Ports ports(4);
  const Folder folder;
  folder.write(
      "job.toml",
      SmallJob{.base_port = ports.first(), .method = "dpsgd", .codec = "dense", .rounds = 100000}.toml());
  const Ended run =
      gossamer(folder, Words{"run", "job.toml", "--out", "out", "-q"} + setting("run.checkpoint_every=1") +
                           setting("optimizer.learning_rate=30") + setting("optimizer.weight_decay=0.05") +
                           setting("run.report_every=0.05"));
  INFO(run.err);
  const std::string log = read_text(folder.path("") + "/out/peers/peer0.log");
  INFO(log);
  CHECK(run.status == 1);
  CHECK(says(log, "going back to the checkpoint of round "));
  CHECK(says(log, "and to a rate of 15"));
  CHECK(says(log, "it had gone back to the checkpoint of round "));
}

}  // namespace gossamer::test
