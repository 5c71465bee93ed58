// Peers of different speed that do not wait for each other.
#include <csignal>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

/// Three peers in a ring; the second has so large a batch that it is many times slower.
std::string uneven_job(const Ports& ports, const std::string& staleness, std::uint64_t rounds) {
  const auto port = [&](int i) { return "\"tcp://127.0.0.1:" + std::to_string(ports.first() + i) + "\"\n"; };
  return "[graph]\nkind = \"ring\"\n[[peer]]\nname = \"peer0\"\naddress = " + port(0) +
         "[[peer]]\nname = \"peer1\"\nbatch = 4096\naddress = " + port(1) +
         "[[peer]]\nname = \"peer2\"\naddress = " + port(2) +
         "[model]\nkind = \"mlp\"\nhidden = [128]\n[data]\nfeatures = 64\nrows = 8192\nsplit = "
         "\"with_replacement\"\n" +
         "[optimizer]\nbatch = 16\n[exchange]\nmethod = \"choco\"\nstaleness = " + staleness +
         "\n[run]\nthreads = 1\nevaluate_every = 0\nrounds = " + std::to_string(rounds) + "\n";
}

/// A bound beyond all rounds: nobody waits, and everyone goes through them.
const std::string kAsTheyCan = "1000";

/// All peers together have taken in what they would in 100 rounds each.
void check_samples(const json& summary) {
  constexpr double kTotal = 100 * (4096 + 2 * 16);
  const auto each = summary.at("samples_by_peer").get<std::vector<double>>();
  const double all = std::accumulate(each.begin(), each.end(), 0.0);
  CHECK(summary.at("samples") == all);
  CHECK(all >= kTotal);
  CHECK(summary.at("overshoot").get<double>() == Approx(all / kTotal - 1));
  CHECK(each[1] <= 4096 * 101);
}

std::map<std::string, json> results_of(Peers& peers) {
  std::map<std::string, json> results;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const std::string out = peers[i].out();
    const auto last = out.rfind('\n', out.size() - 2);
    results[peers[i].name()] = json::parse(out.substr(last == std::string::npos ? 0 : last + 1));
  }
  return results;
}

TEST_CASE("run trains asynchronously") {
  for (const std::string staleness : {"2", "\"unbounded\""}) {
    const Folder folder;
    const Ports ports(3);
    folder.write("job.toml", uneven_job(ports, staleness, 100));
    const auto ended = gossamer(folder, {"run", "job.toml", "--json", "--quiet"});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const json summary = json::parse(ended.out);
    if (staleness == "2") CHECK(summary.at("steps") == 100);
    if (staleness != "2") check_samples(summary);
    CHECK(summary.at("staleness") == (staleness == "2" ? "2" : "unbounded"));
    CHECK(summary.at("test_accuracy") > 0.5);
    if (staleness == "2") CHECK(summary.at("staleness_max") <= 2);
    if (staleness != "2") CHECK(summary.at("staleness_max") > 2);
  }
}

TEST_CASE("run trains by pairs and by sums that nothing resends") {
  for (const std::string method : {"pairwise", "push_sum"}) {
    const Folder folder;
    const Ports ports(3);
    folder.write("job.toml", uneven_job(ports, "\"unbounded\"", 100));
    std::vector<std::string> line{"run",    "job.toml",
                                  "--json", "--quiet",
                                  "--set",  "exchange.codec=dense",
                                  "--set",  "exchange.method=" + method};
    if (method == "push_sum") line.insert(line.end(), {"--set", "exchange.delivery=best_effort"});
    const auto ended = gossamer(folder, line);
    INFO(method << ": " << ended.err);
    REQUIRE(ended.status == 0);
    const json summary = json::parse(ended.out);
    check_samples(summary);
    CHECK(summary.at("test_accuracy") > 0.5);
  }
}

TEST_CASE("peers that finished serve the others until they have finished too") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", uneven_job(ports, kAsTheyCan, 150));
  Peers peers(folder, "job.toml", 3, {"--records"});
  peers.start_all();
  REQUIRE(peers.train_within(30));
  for (std::size_t i = 0; i < 3; ++i) CHECK(peers[i].wait(60) == 0);
  auto results = results_of(peers);
  std::cout << "seconds of training: " << results["peer0"].at("seconds") << ", "
            << results["peer1"].at("seconds") << ", " << results["peer2"].at("seconds") << "\n";
  CHECK(results["peer0"].at("seconds") < results["peer1"].at("seconds"));
  for (const auto& [name, result] : results) {
    CHECK(result.at("outcome") == "finished");
    CHECK(result.at("rounds") == 150);
    CHECK(!says(peers[name.back() - '0'].err(), "--drain-timeout"));
  }
}

TEST_CASE("the drain time-out bounds how long a peer serves the others") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", uneven_job(ports, kAsTheyCan, 300));
  Peers peers(folder, "job.toml", 3, {"--records", "--drain-timeout", "0.2"});
  peers.start_all();
  REQUIRE(peers.train_within(30));
  const bool fast_ended = peers[0].wait(60).has_value();
  REQUIRE(fast_ended);
  CHECK(!peers[1].status());  // still trains
  CHECK(says(peers[0].err(), "not waiting any longer for peer1 (--drain-timeout)"));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto status = peers[i].wait(60);
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(status == 0);
  }
}

TEST_CASE("a finished peer that dies is no loss to those that need nothing of it") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", uneven_job(ports, kAsTheyCan, 300));
  Peers peers(folder, "job.toml", 3, {"--records"});
  peers.start_all();
  REQUIRE(peers.train_within(30));
  REQUIRE(wait_until(30, [&] { return peers[0].out().find("\"round\":300,") != std::string::npos; }));
  peers[0].signal(SIGKILL);
  REQUIRE(!peers[1].status());  // still trains
  for (std::size_t i : {1, 2}) {
    const auto status = peers[i].wait(60);
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(status == 0);
  }
}

TEST_CASE("synchronous peers that serve nobody end all the same") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first()}.toml());
  for (int attempt = 0; attempt < 5; ++attempt) {
    Peers peers(folder, "job.toml", 4, {"--drain-timeout", "0"});
    peers.start_all();
    for (std::size_t i = 0; i < 4; ++i) {
      const auto status = peers[i].wait(20);
      INFO("peer" << i << "\n" << peers[i].err());
      REQUIRE(status);
      CHECK((status == 0 || status == 3));  // never for good in the last round
    }
  }
}

}  // namespace
}  // namespace gossamer::test
