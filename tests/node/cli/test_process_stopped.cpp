// A peer that is stopped: it costs its neighbours no more memory than what may wait for it, and where nobody
// waits they go on.
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

constexpr std::size_t kFeatures = 20000, kClasses = 10, kParameters = (kFeatures + 1) * kClasses;
constexpr std::size_t kStopped = 2;
constexpr int kLost = 3, kInterrupted = 130;
/// Rounds of messages that may wait for a neighbour; each as payload and as frames.
constexpr std::size_t kWindow = 4, kTwice = 2;
/// Frames in ZeroMQ, frames sent again, signs of life.
constexpr std::size_t kBeside = std::size_t{4} << 20;
/// What an allocator keeps, other tests' noise, and where the others go on without the peer what is under way
/// with the neighbour that comes in its place.
constexpr std::size_t kSlack = std::size_t{20} << 20;

std::string job_toml(const Ports& ports, const std::string& exchange) {
  return "peers = 4\nbase_port = " + std::to_string(ports.first()) +
         "\n[graph]\nkind = \"ring\"\n[model]\nkind = \"softmax\"\n[data]\nformat = \"synthetic\"\nrows = "
         "128\ntest_rows = 16\nfeatures = " +
         std::to_string(kFeatures) + "\nclasses = " + std::to_string(kClasses) +
         "\n[optimizer]\nlearning_rate = 0.001\nbatch = 4\n[exchange]\n" + exchange +
         "\n[run]\nthreads = 1\nevaluate_every = 0\nsilence_timeout = 3600\nrounds = " +
         std::to_string(kForever) + "\n";
}

/// Bytes; of pages that neighbours read as well its share.
std::size_t resident(const Process& process) {
  std::istringstream status(read_text("/proc/" + std::to_string(process.pid()) + "/smaps_rollup"));
  for (std::string word; status >> word;)
    if (std::size_t kib = 0; word == "Pss:" && status >> kib) return kib << 10;
  return 0;
}

struct Case {
  std::string exchange;
  std::size_t bytes_per_parameter;
  bool waits;      ///< the others stand still, too
  double seconds;  ///< for which the peer is stopped
};

void stop_one(const Case& c) {
  INFO(c.exchange);
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", job_toml(ports, c.exchange));
  Peers peers(folder, "job.toml", 4, {"--json"});
  peers.start_all();
  REQUIRE(peers.train_within(60));
  pause(2);
  const std::size_t most = kTwice * kWindow * kParameters * c.bytes_per_parameter + kBeside;
  const std::vector<std::size_t> neighbours{kStopped - 1, kStopped + 1};
  std::vector<std::size_t> before, after;
  for (const std::size_t n : neighbours) before.push_back(resident(peers[n]));
  after = before;
  peers[kStopped].signal(SIGSTOP);
  for (const auto begin = Clock::now(); seconds_since(begin) < c.seconds; pause(0.1))
    for (std::size_t k = 0; k < neighbours.size(); ++k)
      after[k] = std::max(after[k], resident(peers[neighbours[k]]));
  for (const std::size_t n : neighbours) {
    INFO(peers[n].err());
    CHECK_FALSE(peers[n].status());
    peers[n].signal(SIGINT);
  }
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    Process& neighbour = peers[neighbours[k]];
    std::cout << c.exchange << ": a neighbour's memory grew by " << ((after[k] - before[k]) >> 10)
              << " KiB in " << c.seconds << " s; " << (most >> 10) << " may wait\n";
    CHECK((kSanitized || after[k] <= before[k] + most + kSlack));
    const auto status = neighbour.wait(30);
    INFO(neighbour.name() << ": " << neighbour.err());
    REQUIRE((status == kInterrupted || status == kLost));  // one may hear first that the other has left
    const json summary = json::parse(neighbour.out());
    CHECK(summary.at("queued_bytes_most") <= most);
    CHECK(summary.at("queued_bytes_most") > 0);
    CHECK((summary.at("held_back") > 0) == !c.waits);
  }
  peers[kStopped].signal(SIGCONT);
}

TEST_CASE("a stopped peer costs its neighbours what may wait for it and no more") {
  Drawn drawn(2);
  for (const Case& c :
       {Case{"method = \"dpsgd\"\ncodec = \"dense\"\nstaleness = \"unbounded\"", 4, false, 10},
        Case{"method = \"choco\"\ncodec = \"qsgd:bits=4\"\nstaleness = \"unbounded\"", 1, false, 4},
        Case{"method = \"push_sum\"\ncodec = \"dense\"\nstaleness = \"unbounded\"", 8, false, 4},
        Case{"method = \"dpsgd\"\ncodec = \"dense\"\nstaleness = 2", 4, true, 4}})
    if (drawn()) stop_one(c);
}

}  // namespace
}  // namespace gossamer::test
