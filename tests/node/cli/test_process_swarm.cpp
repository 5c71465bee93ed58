// gossamer sim --seeds and --replay as a user starts them.
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

TEST_CASE("a swarm prints what it did, a seed of it can be looked at and run as a job") {
  const Folder folder;
  const auto swarm = gossamer(folder, {"sim", "--seeds", "12", "--threads", "2", "--json", "--quiet"});
  INFO(swarm.err);
  REQUIRE(swarm.status == 0);
  const auto summary = nlohmann::json::parse(swarm.out);
  CHECK(summary["seeds"] == 12);
  CHECK(summary["counts"]["messages"] > 0);
  CHECK_FALSE(summary.contains("violation"));
  CHECK(gossamer(folder, {"sim", "--seeds", "3"}).out.find("frames resent") != std::string::npos);

  const auto replay = gossamer(folder, {"sim", "--replay", "2", "--json"});
  REQUIRE(replay.status == 0);
  const auto seen = nlohmann::json::parse(replay.out);
  folder.write("drawn.toml", seen["job"].get<std::string>());
  std::vector<std::string> words{"sim", "drawn.toml", "--seed", "2", "--json", "--quiet"};
  for (const auto& crash : seen["crashes"]) words.insert(words.end(), {"--crash", crash.get<std::string>()});
  CHECK(nlohmann::json::parse(gossamer(folder, words).out)["digest"] == seen["digest"]);
  const auto text = gossamer(folder, {"sim", "--replay", "2"});
  CHECK(text.out.find("# seed 2: ") == 0);
  CHECK(text.out.find(seen["digest"].get<std::string>()) != std::string::npos);
}

TEST_CASE("a swarm of one job keeps the job") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{3, ports.first(), "ring", "dpsgd", "dense", "1", 10}.toml());
  const auto ended = gossamer(folder, {"sim", "job.toml", "--seeds", "5", "--json", "--quiet"});
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(nlohmann::json::parse(ended.out)["counts"]["method dpsgd"] == 5);
  const auto nothing = gossamer(folder, {"sim"});
  CHECK(nothing.status == 2);
  CHECK(nothing.err.find("job file, or --seeds") != std::string::npos);
  const auto drawn = gossamer(folder, {"sim", "--seeds", "1", "--bandwidth", "1mbit"});
  CHECK(drawn.status == 2);
  CHECK(drawn.err.find("'sim.bandwidth=1mbit' changes a job, and a swarm draws jobs of its own") !=
        std::string::npos);
  CHECK(gossamer(folder, {"sim", "--seeds", "1", "--replay", "1"}).status == 2);
  for (const std::string n : {"0", "-1", "many"})
    CHECK(
        gossamer(folder, {"sim", "--seeds=" + n}).err.find("--seeds: " + n + ": expected a number above 0") !=
        std::string::npos);
  for (const std::string flag : {"--seed", "--first-seed", "--replay"})
    CHECK(gossamer(folder, {"sim", flag + "=-1"}).err.find(flag + ": -1: expected a number of 0 or more") !=
          std::string::npos);
}

TEST_CASE("a swarm takes nothing that is of one run") {
  const Folder folder;
  folder.write("job.toml", SmallJob{3, 7001, "ring", "dpsgd", "dense", "1", 10}.toml());
  const std::vector<std::vector<std::string>> all{
      {"--seed", "1"},    {"--crash", "peer1@0.01"}, {"--restart", "peer1@1"}, {"--model", "m"},
      {"--metrics", "x"}, {"--trace", "t"},          {"--own-models"}};
  for (const auto& of_one : all)
    for (const std::string swarm : {"--seeds", "--replay"}) {
      std::vector<std::string> words{"sim", "job.toml", swarm, "1"};
      words.insert(words.end(), of_one.begin(), of_one.end());
      const auto ended = gossamer(folder, words);
      INFO(ended.err);
      CHECK(ended.status == 2);
      CHECK(ended.err.find(of_one[0] + " goes with one run of a JOB; expected no " + swarm) !=
            std::string::npos);
    }
}

TEST_CASE("a swarm of a job takes its time, and what is wrong with the job is no violation") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{3, ports.first(), "ring", "dpsgd", "dense", "0", 100}.toml());
  const auto ended =
      gossamer(folder, {"sim", "job.toml", "--seeds", "2", "--quiet", "--set", "sim.step_time=60s"});
  INFO(ended.err);
  CHECK(ended.status == 0);
  const auto unsound = gossamer(
      folder, {"sim", "job.toml", "--seeds", "2", "--quiet", "--set", "exchange.codec=onebit_scaled"});
  CHECK(unsound.status == 2);
  CHECK(unsound.err.find("do not converge under a lossy codec") != std::string::npos);
}

TEST_CASE("numbers beyond 64 bits are refused where they would be another number or none") {
  const Folder folder;
  const char* const last = "18446744073709551615";
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto ended = gossamer(folder, words);
    INFO(ended.err);
    CHECK(ended.status == 2);
    CHECK(says(ended.err, why));
  };
  refused({"sim", "--seeds", "2", "--first-seed", last}, "seeds end at 2^64 - 1");
  const std::string whole = "expected a whole number from 0 to 2^64 - 1";
  refused({"sim", "--seeds", "99999999999999999999"}, whole);
  refused({"sim", "--replay", "18446744073709551616"}, whole);
  refused({"peer", "job.toml", "--name", "peer0", "--session", "-1"}, whole);
}

TEST_CASE("data.seed draws other data") {
  const Folder folder;
  const std::string job = SmallJob{.peers = 2, .base_port = 1, .graph = "full", .rounds = 3}.toml();
  folder.write("job.toml", job);
  const auto plain = gossamer(folder, {"sim", "job.toml", "--json", "-q"}),
             other = gossamer(folder, {"sim", "job.toml", "--json", "-q", "--set", "data.seed=7"});
  INFO(other.err);
  REQUIRE(other.status == 0);
  CHECK(nlohmann::json::parse(plain.out).at("digest") != nlohmann::json::parse(other.out).at("digest"));
}

}  // namespace
}  // namespace gossamer::test
