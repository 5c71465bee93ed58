// gossamer bench: full reduces between peers of one process.
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr int kBadInput = 2;

TEST_CASE("bench allreduce reduces as was asked, and says what it cost") {
  const Folder folder;
  for (const auto& [codec, step] : std::vector<std::pair<std::string, bool>>{{"dense", false},
                                                                             {"dense", true},
                                                                             {"qsgd:bits=4", false},
                                                                             {"onebit_scaled", false},
                                                                             {"onebit_scaled", true}}) {
    INFO(codec << (step ? " and step" : ""));
    std::vector<std::string> words{"bench",    "allreduce", "--size",  "400kB", "--peers", "3",
                                   "--rounds", "6",         "--codec", codec,   "--json"};
    if (step) words.push_back("--step");
    const Ended ended = gossamer(folder, words);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const auto told = nlohmann::json::parse(ended.out);
    CHECK(told.at("bytes") == 400'000);
    CHECK(told.at("peers") == 3);
    CHECK(told.at("rounds") == 6);
    CHECK(told.at("step") == step);
    CHECK(told.at("seconds") > 0);
    CHECK(told.at("cpu_seconds") > 0);
    CHECK(told.at("seconds_least") <= told.at("seconds_most"));
    const double sent = told.at("bytes_sent_per_peer");
    const double dense = 400'000.0 * 4 / 3;
    CHECK((codec == "dense" ? sent >= dense && sent < 1.1 * dense : sent < dense / 5));
  }
  const Ended text = gossamer(folder, {"bench", "allreduce", "--size", "100k", "--peers", "2", "--rounds",
                                       "2", "--set", "exchange.algorithm=halving_doubling"});
  CHECK(text.status == 0);
  CHECK(says(text.out, "400 kB in 2 peers of this machine, codec dense, halving_doubling: "));
  const Ended sparse = gossamer(folder, {"bench", "allreduce", "--size", "100k", "--rounds", "2", "--codec",
                                         "topk:density=0.01", "--set", "exchange.method=gtopk"});
  CHECK(sparse.status == 0);
  CHECK(says(sparse.out, "gtopk: "));
}

TEST_CASE("bench allreduce gives codecs entries of many sizes, as gradients have") {
  const Folder folder;
  const auto sent = [&](const std::string& codec) -> double {
    const Ended ended = gossamer(folder, {"bench", "allreduce", "--size", "400kB", "--peers", "2", "--rounds",
                                          "2", "--codec", codec, "--json"});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return nlohmann::json::parse(ended.out).at("bytes_sent_per_peer");
  };
  // Levels of one size throughout would take next to nothing by their frequencies.
  const double shorter = sent("qsgd:bits=4,coding=rans") / sent("qsgd:bits=4");
  CHECK(shorter > 0.5);
  CHECK(shorter < 0.9);
}

TEST_CASE("bench allreduce reduces between processes at addresses of their own") {
  const Folder folder;
  const Ports ports(2);
  const std::string addresses = "tcp://127.0.0.1:" + std::to_string(ports.first()) +
                                ",tcp://127.0.0.1:" + std::to_string(ports.first() + 1);
  const std::vector<std::string> words{"bench", "allreduce", "--size",      "100kB",   "--rounds",
                                       "3",     "--json",    "--addresses", addresses, "--peer"};
  std::vector<std::unique_ptr<Process>> peers;
  for (const std::string number : {"0", "1"}) {
    auto all = words;
    all.push_back(number);
    peers.push_back(std::make_unique<Process>(folder.path(""), "peer" + number, all));
  }
  for (const auto& peer : peers) {
    CHECK(peer->wait(30) == 0);
    INFO(peer->err());
    const auto told = nlohmann::json::parse(peer->out());
    CHECK(told.at("peers") == 2);
    CHECK(told.at("rounds") == 3);
    CHECK(told.at("seconds") > 0);
  }
}

TEST_CASE("bench allreduce says what is wrong with what was asked") {
  const Folder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all{"bench", "allreduce", "--rounds", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Ended ended = gossamer(folder, all);
    CHECK(ended.status == kBadInput);
    CHECK(says(ended.err, words));
  };
  refused({"--size", "much"}, "--size much: expected how many floats");
  refused({"--peers", "1"}, "--peers: a reduce needs two peers at least");
  refused({"--addresses", "tcp://127.0.0.1:1"}, "--addresses: a reduce needs two peers at least");
  refused({"--addresses", "tcp://127.0.0.1:7001,tcp://127.0.0.1:7002", "--peer", "2"},
          "--peer 2: expected a number below 2");
  refused({"--addresses", "tcp://127.0.0.1:7001,tcp://127.0.0.1:7002", "--peers", "2"}, "--peers");
  refused({"--peer", "1"}, "--addresses");
  refused({"--set", "exchange.method=choco"},
          "exchange.method is \"choco\", which is no reduce of gradients");
  refused({"--codec", "onebit_scald"}, "onebit_scaled");
  refused({"--size", "1k", "--set", "exchange.local_steps=3"}, "exchange.local_steps");
}

}  // namespace
}  // namespace gossamer::test
