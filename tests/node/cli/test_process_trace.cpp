// --trace: what takes how long, as a file that viewers of the Trace Event Format read.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

struct Events {
  std::set<std::string> peers;                              ///< names of processes
  std::map<std::pair<int, std::string>, std::size_t> many;  ///< by process and name
  std::map<int, double> compute_s, wait_s;
};

Events read(const std::string& path) {
  Events all;
  for (const json& event : json::parse(std::ifstream(path))) {
    const std::string name = event.at("name");
    const int process = event.at("pid");
    if (event.at("ph") == "M") {
      if (name == "process_name") all.peers.insert(event.at("args").at("name"));
      continue;
    }
    CHECK(event.at("ph") == "X");
    CHECK(event.at("dur") >= 0);
    ++all.many[{process, name}];
    if (name == "compute") all.compute_s[process] += 1e-6 * event.at("dur").get<double>();
    if (name == "wait") all.wait_s[process] += 1e-6 * event.at("dur").get<double>();
  }
  return all;
}

TEST_CASE("a run's trace shows what each peer computes, codes, sends and waits for") {
  constexpr std::size_t kRounds = 40;
  const Folder folder;
  const Ports ports{3};
  folder.write("job.toml", SmallJob{3, ports.first(), "ring", "choco", "onebit_scaled", "0", kRounds}.toml());
  const Ended ended =
      gossamer(folder, {"run", "job.toml", "--trace", "trace.json", "--json", "--out", "out"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  Events events = read(folder.path("trace.json"));
  CHECK(events.peers == std::set<std::string>{"peer0", "peer1", "peer2"});
  const json summary = json::parse(ended.out);
  for (int peer = 0; peer < 3; ++peer) {
    INFO(peer);
    CHECK(events.many[{peer, "compute"}] == kRounds);
    CHECK(events.many[{peer, "wait"}] == kRounds);
    for (const char* what : {"gradient", "update and encode", "mix", "send"})
      CHECK(events.many[{peer, what}] >= kRounds);
    const double seconds = events.compute_s[peer] + events.wait_s[peer];
    const double waited = summary.at("waited_by_peer").at(static_cast<std::size_t>(peer));
    CHECK(waited == Approx(events.wait_s[peer] / seconds).margin(0.1));
  }
}

TEST_CASE("a simulation's trace is in virtual time") {
  const Folder folder;
  folder.write("job.toml", SmallJob{3, 7001, "ring", "dpsgd", "dense", "0", 20}.toml());
  const Ended ended = gossamer(folder, {"sim", "job.toml", "--trace", "trace.json", "--step-time", "1s",
                                        "--latency", "500ms", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  Events events = read(folder.path("trace.json"));
  CHECK(events.peers.size() == 3);
  CHECK(events.many[{1, "send"}] >= 40);
  CHECK(events.compute_s[1] == Approx(20).epsilon(0.1));
  CHECK(events.wait_s[1] >= 20 * 0.4);
}

TEST_CASE("a trace that cannot be written is refused before anything is started") {
  const Folder folder;
  folder.write("job.toml", SmallJob{3, 7001, "ring", "dpsgd", "dense", "0", 20}.toml());
  for (const std::string command : {"run", "sim"}) {
    const Ended ended = gossamer(folder, {command, "job.toml", "--trace", "nowhere/trace.json"});
    CHECK(ended.status == 2);
    CHECK(says(ended.err, "nowhere/trace.json"));
  }
}

}  // namespace
}  // namespace gossamer::test
