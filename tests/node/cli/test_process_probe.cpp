// Measuring links between real processes, and advice from what was measured.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

std::string topology(const Folder& folder, const Ports& ports, std::size_t peers) {
  return folder.write(
      "t.toml", "peers = " + std::to_string(peers) + "\nbase_port = " + std::to_string(ports.first()) + "\n");
}

void check_links(const json& probe, std::size_t links) {
  REQUIRE(probe.at("links").size() == links);
  for (const json& link : probe.at("links")) {
    INFO(link.dump());
    CHECK(link.at("bandwidth") > 1e6);  // loopback
    CHECK(link.at("bandwidth") < 1e13);
    CHECK(link.at("latency") > 0);
    CHECK(link.at("latency") < 0.5);
    const auto there = link.at("bandwidth_there").get<double>(),
               back = link.at("bandwidth_back").get<double>();
    CHECK(link.at("bandwidth").get<double>() == std::min(there, back));
  }
}

/// A process for each name, which measures with these further words.
std::vector<std::unique_ptr<Process>> probing(const Folder& folder, const std::vector<std::string>& names,
                                              const std::vector<std::string>& further) {
  std::vector<std::unique_ptr<Process>> peers;
  for (const std::string& name : names) {
    std::vector<std::string> words{"probe", "t.toml", "--json", "--name", name};
    words.insert(words.end(), further.begin(), further.end());
    peers.push_back(std::make_unique<Process>(folder.path(""), name, words));
  }
  return peers;
}

}  // namespace

TEST_CASE("probe measures all pairs of peers of one machine") {
  for (const std::size_t peers : {2, 5}) {
    CAPTURE(peers);
    const Folder folder;
    const Ports ports(peers);
    topology(folder, ports, peers);
    const auto ended = gossamer(folder, {"probe", "t.toml", "--json", "--seconds", "0.03", "--quiet"});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    CHECK(ended.err.empty());
    const json told = json::parse(ended.out);
    check_links(told, peers * (peers - 1) / 2);
    REQUIRE(told.at("uplinks").size() == (peers > 2 ? peers : 0));
    for (const auto& [name, uplink] : told.at("uplinks").items()) {
      INFO(name);
      CHECK(uplink > 1e6);
      CHECK(uplink < 1e13);
    }
  }
}

TEST_CASE("peers on machines of their own end with the same table, which advise takes") {
  const Folder folder;
  const Ports ports(3);
  topology(folder, ports, 3);
  std::vector<std::unique_ptr<Process>> peers;
  for (const char* name : {"peer0", "peer1", "peer2"})
    peers.push_back(
        std::make_unique<Process>(folder.path(""), name,
                                  std::vector<std::string>{"probe", "t.toml", "--name", name, "--seconds",
                                                           "0.03", "--out", std::string(name) + ".toml"}));
  for (auto& peer : peers) {
    INFO(peer->err());
    REQUIRE(peer->wait(60) == 0);
  }
  CHECK(says(peers[0]->err(), "peer0 - peer1: "));
  const std::string table = read_text(folder.path("peer0.toml"));
  CHECK(says(table, "3 of 3 links between 3 peers"));
  CHECK(says(table, "name = \"peer1\"\nuplink = "));
  CHECK(read_text(folder.path("peer1.toml")) == table);
  CHECK(read_text(folder.path("peer2.toml")) == table);
  const auto advised = gossamer(folder, {"topology", "advise", "t.toml", "--links", "peer0.toml",
                                         "--parameters", "100k", "--out", "best.toml"});
  INFO(advised.err);
  REQUIRE(advised.status == 0);
  CHECK(says(advised.out, "Best: "));
  CHECK(gossamer(folder, {"topology", "show", "best.toml"}).status == 0);
}

TEST_CASE("a peer that starts late hears of all others, whomever they meet first") {
  // The others' connections to it are in their pauses between attempts when they hear of it.
  const Folder folder;
  const Ports ports(4);
  topology(folder, ports, 4);
  const std::vector<std::string> further{"--seconds", "0.03", "--timeout", "6"};
  auto peers = probing(folder, {"peer0", "peer2", "peer3"}, further);
  pause(1.5);
  peers.push_back(std::move(probing(folder, {"peer1"}, further).front()));
  for (auto& peer : peers) {
    INFO(peer->err());
    CHECK(peer->wait(60) == 0);
    check_links(json::parse(peer->out()), 6);
  }
}

TEST_CASE("a peer that never answers is named and the others are measured") {
  const Folder folder;
  const Ports ports(4);
  topology(folder, ports, 4);
  const auto begin = Clock::now();
  const auto peers = probing(folder, {"peer0", "peer1", "peer3"}, {"--seconds", "0.03", "--timeout", "2"});
  for (auto& peer : peers) {
    REQUIRE(peer->wait(60) == 3);
    const json told = json::parse(peer->out());
    check_links(told, 3);
    CHECK(told.at("silent") == json::array({"peer2"}));
    CHECK(says(peer->err(), "peer2 did not answer"));
  }
  CHECK(seconds_since(begin) < 20);
}

TEST_CASE("a peer that dies meanwhile costs its own links only") {
  const Folder folder;
  const Ports ports(3);
  topology(folder, ports, 3);
  const auto peers = probing(folder, {"peer0", "peer1", "peer2"}, {"--seconds", "1", "--timeout", "3"});
  // In round 0 of three peers 1 meets 2; 2 is killed in the midst of that.
  pause(1);
  peers[2]->signal(SIGKILL);
  for (const int i : {0, 1}) {
    REQUIRE(peers[static_cast<std::size_t>(i)]->wait(60) == 3);
    const json told = json::parse(peers[static_cast<std::size_t>(i)]->out());
    INFO(told.dump());
    CHECK(told.at("silent") == json::array({"peer2"}));
    CHECK(told.at("links").size() >= 1);
    CHECK(told.at("links").at(0).at("between") == json::array({"peer0", "peer1"}));
  }
}

TEST_CASE("wrong words of probe and advise") {
  const Folder folder;
  const Ports ports(2);
  topology(folder, ports, 2);
  folder.write("bad.csv", "bandwidth,peer0,peer1\npeer0,,-1\n");
  folder.write("one.toml", "peers = 1\n");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& message) {
    const auto ended = gossamer(folder, words);
    INFO(words.back());
    CHECK(ended.status == 2);
    CHECK(says(ended.err, message));
  };
  refused({"probe", "t.toml", "--name", "peer7"}, "no such peer in the topology; its peers are peer0, peer1");
  refused({"probe", "one.toml"}, "one peer has no links");
  refused({"topology", "advise", "t.toml"}, "expected --parameters N such as 25M, or --job JOB");
  refused({"topology", "advise", "one.toml", "--parameters", "1M"}, "one peer needs no graph");
  refused({"topology", "advise", "t.toml", "--parameters", "1M", "--links", "bad.csv"}, "bad.csv:2: ");
  refused({"topology", "advise", "t.toml", "--parameters", "many"}, "--parameters many: expected a count");
  refused({"topology", "advise", "t.toml", "--parameters", "1M", "--methods", "choko"},
          "did you mean 'choco'?");
  refused({"topology", "advise", "t.toml", "--parameters", "1M", "--bandwidth", "5ms"},
          "--bandwidth 5ms: expected a bandwidth such as 100mbit");
}

}  // namespace gossamer::test
