// Peers that are told to end while others go on without them.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

constexpr int kToldToEnd = 130;
constexpr double kLongStart_s = 30, kLongEnd_s = 60;

/// Of rounds that take a while, so that there is time to leave.
std::string leaving_job(const Ports& ports, const std::string& method, const std::string& codec,
                        std::uint64_t rounds) {
  return SmallJob{4, ports.first(), "full", method, codec, "0", rounds}.toml();
}

bool all_say_within(double seconds, Peers& peers, std::size_t but, const std::string& words) {
  return wait_until(seconds, [&] {
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (i != but && !says(peers[i].err(), words)) return false;
    return true;
  });
}

TEST_CASE("a peer that is told to end leaves, comes back, and all finish") {
  for (const auto& [method, codec] : {std::pair{"choco", "onebit_scaled"}, std::pair{"allreduce", "dense"}}) {
    INFO(method);
    const Folder folder;
    const Ports ports(4);
    folder.write("job.toml", leaving_job(ports, method, codec, kForever));
    Peers peers(folder, "job.toml", 4, {"--set", "run.report_every=0.05", "--set", "run.rounds=12000"});
    peers.start_all();
    REQUIRE(peers.train_within(kLongStart_s));
    const auto told = Clock::now();
    peers[0].signal(SIGTERM);
    REQUIRE(all_say_within(kLongEnd_s, peers, 0, "3 of 4 peers go on without peer0"));
    std::cout << method << ": the others went on without the peer told to end " << seconds_since(told)
              << " s after it was\n";
    REQUIRE(peers[0].wait(kLongEnd_s));
    INFO(peers[0].err());
    CHECK(peers[0].status() == kToldToEnd);
    CHECK(says(peers[0].err(), "told to end, and left in round"));
    CHECK(std::filesystem::exists(peers.model(0)));
    CHECK(all_say_within(kLongEnd_s, peers, 0, "peer peer0 left: it ended by itself"));
    peers.start(0);
    CHECK(all_say_within(kLongEnd_s, peers, 0, "peer peer0 is back: started again"));
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(peers[i].wait(4 * kLongEnd_s));
      INFO(peers[i].name() << ": " << peers[i].err());
      CHECK(peers[i].status() == 0);
    }
  }
}

/// `gossamer run` of that job.
struct RunOfFour {
  explicit RunOfFour(std::uint64_t rounds, const std::vector<std::string>& more = {}) {
    folder.write("job.toml", leaving_job(ports, "choco", "onebit_scaled", rounds));
    std::vector<std::string> words{"run", "job.toml", "--json", "--out", folder.path("out")};
    words.insert(words.end(), more.begin(), more.end());
    run = std::make_unique<Process>(folder.path(""), "run", words);
    REQUIRE(wait_until(kLongStart_s, [&] { return run->children().size() == 4; }));
    REQUIRE(
        wait_until(kLongStart_s, [&] { return read_text(folder.path("out/metrics.jsonl")).size() > 2000; }));
  }
  pid_t child(const std::string& name) const {
    for (const pid_t pid : run->children())
      if (says(read_text("/proc/" + std::to_string(pid) + "/cmdline"), name)) return pid;
    return -1;
  }
  const Folder folder;
  const Ports ports{4};
  std::unique_ptr<Process> run;
};

TEST_CASE("a run counts a peer that was told to end as left, and does not start it again") {
  RunOfFour four(20000);
  const pid_t told = four.child("peer2");
  REQUIRE(told > 0);
  REQUIRE(kill(told, SIGTERM) == 0);
  REQUIRE(four.run->wait(4 * kLongEnd_s));
  INFO(four.run->err());
  CHECK(four.run->status() == 0);
  CHECK_FALSE(says(four.run->err(), "starting it again"));
  CHECK(says(four.run->err(), "gossamer: peer2: told to end, and left in round"));
  CHECK(says(four.run->err(), "peer2 was lost at "));
  const json losses = json::parse(four.run->out()).at("losses");
  REQUIRE(losses.size() == 1);
  CHECK(losses[0].at("peer") == "peer2");
  CHECK(losses[0].at("why") == "it ended by itself");
  CHECK(losses[0].at("share_done") > 0);
  CHECK(losses[0].at("share_done") < 1);
  CHECK(losses[0].at("seconds") > 0);
  CHECK(losses[0].at("returned").is_null());
}

TEST_CASE("a run names the peers that were killed and came back") {
  RunOfFour four(30000);
  const pid_t killed = four.child("peer1");
  REQUIRE(killed > 0);
  REQUIRE(kill(killed, SIGKILL) == 0);
  REQUIRE(four.run->wait(4 * kLongEnd_s));
  INFO(four.run->err());
  CHECK(four.run->status() == 0);
  CHECK(says(four.run->err(), "peer1: killed by signal 9; starting it again"));
  const json losses = json::parse(four.run->out()).at("losses");
  REQUIRE(losses.size() == 1);
  CHECK(losses[0].at("peer") == "peer1");
  CHECK(losses[0].at("why").get<std::string>().find("connection broke") != std::string::npos);
  CHECK(losses[0].at("returned") > losses[0].at("seconds"));
}

/// peer: of three, which is killed when there is a best checkpoint; no later one is better.
void keep_best_without(std::size_t peer) {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{3, ports.first(), "full", "allreduce", "dense", "0", 3000}.toml());
  Process run(folder.path(""), "run",
              {"run", "job.toml", "--json", "--out", folder.path("out"), "--set", "run.checkpoint_every=50",
               "--set", "optimizer.learning_rate=1e-9", "--set", "run.restart=0"});
  const std::string checkpoints = folder.path("out/checkpoints/");
  REQUIRE(
      wait_until(kLongStart_s, [&] { return std::filesystem::exists(checkpoints + "round-000000000300"); }));
  REQUIRE(run.children().size() == 3);
  REQUIRE(kill(run.children()[peer], SIGKILL) == 0);
  REQUIRE(run.wait(kLongEnd_s));
  INFO(run.err());
  CHECK(run.status() == 0);
  CHECK(std::filesystem::exists(checkpoints + "round-000000000050/peer1.json"));
  std::string logs;
  for (const std::string name : {"peer1", peer == 0 ? "peer2" : "peer0"})
    logs += read_text(folder.path("out/peers/") + name + ".log");
  CHECK_FALSE(says(logs, "was cut: what came over it was damaged"));
  CHECK_FALSE(says(logs, "is there after all"));
}
TEST_CASE("the best checkpoint of a view before stands, and the run goes on as fast") {
  keep_best_without(2);
}
TEST_CASE("the best checkpoint stands where the peer that evaluates has gone") { keep_best_without(0); }

TEST_CASE("Ctrl-C ends a run whose members may change with a checkpoint that all have") {
  RunOfFour four(kForever, {"--set", "data.test_rows=50000"});  // some take longer than others to end
  four.run->signal(SIGINT);
  REQUIRE(four.run->wait(kLongEnd_s));
  INFO(four.run->err());
  CHECK(four.run->status() == kToldToEnd);
  CHECK(says(four.run->err(), "gossamer: interrupted; 4 of 4 peers saved"));
  CHECK(says(four.run->err(), "to go on from there"));
  CHECK(json::parse(four.run->out()).at("losses").empty());  // they ended together
  const auto listed = gossamer(four.folder, {"checkpoint", "list", four.folder.path("out"), "--json"});
  INFO(listed.out << listed.err);
  CHECK(listed.status == 0);
  Process again(four.folder.path(""), "again",
                {"run", "--resume", four.folder.path("out"), "--out", four.folder.path("again")});
  CHECK(again.says_within(kLongStart_s, "going on from"));
  REQUIRE(wait_until(kLongStart_s,
                     [&] { return read_text(four.folder.path("again/metrics.jsonl")).size() > 4000; }));
  again.signal(SIGINT);
  REQUIRE(again.wait(kLongEnd_s));
  CHECK(again.status() == kToldToEnd);
}

}  // namespace
}  // namespace gossamer::test
