// Joining: who is missing is named, who comes late is waited for.
#include <netdb.h>

#include <csignal>
#include <iostream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr int kLost = 3, kInterrupted = 130;

void one_missing(const std::string& graph, std::size_t missing) {
  const Folder folder;
  const Ports ports(5);
  folder.write("job.toml", SmallJob{5, ports.first(), graph}.toml());
  Peers peers(folder, "job.toml", 5, {"--join-timeout", "2"});
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < 5; ++i)
    if (i != missing) peers.start(i);
  for (std::size_t i = 0; i < 5; ++i) {
    if (i == missing) continue;
    const auto status = peers[i].wait(15);
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(status == kLost);
    CHECK(says(peers[i].err(), "missing peer" + std::to_string(missing) + "\n"));
    CHECK(!says(peers[i].err(), "lost"));
  }
  std::cout << "a " << graph << " without one peer ended after " << seconds_since(begin)
            << " s of a join time-out of 2 s\n";
  CHECK(seconds_since(begin) < 5);
}

TEST_CASE("a ring without one peer names it") { one_missing("ring", 2); }
TEST_CASE("a star without a leaf names it") { one_missing("star", 4); }

TEST_CASE("a star without its hub ends with what each leaf can know") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{3, ports.first(), "star"}.toml());
  Peers peers(folder, "job.toml", 3, {"--join-timeout", "1"});
  for (std::size_t i : {1, 2}) peers.start(i);
  for (std::size_t i : {1, 2}) {
    CHECK(peers[i].wait(15) == kLost);
    CHECK(says(peers[i].err(), "missing peer0"));
  }
}

/// Peers under an address and, where it is not empty, a bind address for each.
std::string topology(const std::string& host, const std::string& bind, const Ports& ports, int count) {
  std::string text;
  for (int p = 0; p < count; ++p) {
    const std::string number = std::to_string(ports.first() + p);
    text += "[[peer]]\nname = \"peer" + std::to_string(p) + "\"\naddress = \"tcp://" + host + ":" + number +
            "\"\n" + (bind.empty() ? "" : "bind = \"tcp://" + bind + ":" + number + "\"\n");
  }
  return text + "[graph]\nkind = \"ring\"\n";
}

TEST_CASE("peers listen on their host's name and on all addresses") {
  const auto [host, bind] = GENERATE(std::pair("localhost", ""), std::pair("localhost", "*"),
                                     std::pair("127.0.0.1", "localhost"), std::pair("127.0.0.1", "0.0.0.0"));
  INFO(host << " " << bind);
  addrinfo* found = nullptr;
  if (::getaddrinfo("localhost", nullptr, nullptr, &found) != 0)
    GOSSAMER_SKIP("this machine has no address for localhost (/etc/hosts)");
  ::freeaddrinfo(found);
  const Folder folder;
  const Ports ports(2);
  folder.write("net.toml", topology(host, bind, ports, 2));
  std::string job = SmallJob{}.toml();
  job.erase(0, job.find("[model]"));
  folder.write("job.toml", "topology = \"net.toml\"\n" + job);
  const auto ended =
      gossamer(folder, {"run", "job.toml", "--set", "run.rounds=10", "--set", "run.insecure=true"});
  INFO(ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a peer that should listen on no host or another's says so") {
  const auto [bind, expected] =
      GENERATE(std::pair("no-such-host.invalid", "no-such-host.invalid: "),  // the resolver's own words
               std::pair("192.0.2.1", "the bind address of a peer must be one of this machine"));
  const Folder folder;
  const Ports ports(2);
  folder.write("net.toml", topology("127.0.0.1", bind, ports, 2));
  folder.write("job.toml", "topology = \"net.toml\"\n");
  const auto ended = gossamer(folder, {"peer", "job.toml", "--name", "peer0", "--set", "run.insecure=true"});
  CHECK(ended.status == 2);
  CHECK(says(ended.err, std::string("cannot listen on tcp://") + bind));
  CHECK(says(ended.err, expected));
}

TEST_CASE("a neighbour whose host cannot be found is named with the resolver's words") {
  const Folder folder;
  const Ports ports(2);
  std::string net = topology("127.0.0.1", "", ports, 3);
  const std::size_t last = net.rfind("127.0.0.1");
  net.replace(last, std::string("127.0.0.1").size(), "no-such-host.invalid");
  folder.write("net.toml", net);
  folder.write("job.toml", "topology = \"net.toml\"\n");
  addrinfo* none = nullptr;
  const auto begin = Clock::now();
  const std::string why = gai_strerror(getaddrinfo("no-such-host.invalid", nullptr, nullptr, &none));
  const std::string expected = "tcp://no-such-host.invalid:" + std::to_string(ports.first() + 2) + ": " + why;
  if (seconds_since(begin) > 1) GOSSAMER_SKIP("look-ups take long here");
  Peers peers(folder, "job.toml", 3, {"--join-timeout", "4", "--set", "run.insecure=true"});
  peers.start(0);
  peers.start(1);
  for (std::size_t i : {0, 1}) {
    CHECK(peers[i].says_within(3, expected + "; trying again\n"));
    CHECK(peers[i].wait(15) == kLost);
    INFO(peers[i].err());
    CHECK(says(peers[i].err(), "missing peer2; " + expected + "\n"));
  }
}

TEST_CASE("a peer that would join where nobody answers ends when it is told to") {
  const bool knows_job = GENERATE(false, true);
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{2, ports.first()}.toml());
  std::vector<std::string> words = {"peer"};
  if (knows_job) words.push_back("job.toml");
  for (const char* word : {"--name", "late", "--join-timeout", "60", "--join"}) words.push_back(word);
  words.push_back("tcp://127.0.0.1:" + std::to_string(ports.first() + 2));
  Process late(folder.path(""), "late", words);
  pause(1);
  late.signal(SIGTERM);
  CHECK(late.wait(5) == kInterrupted);
  CHECK(says(late.err(), "interrupted before it answered"));
}

TEST_CASE("a peer that starts late is waited for") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first()}.toml());
  Peers peers(folder, "job.toml", 4);
  for (std::size_t i : {0, 1, 3}) peers.start(i);
  pause(3);
  for (std::size_t i : {0, 1, 3}) CHECK(!peers[i].status());
  const auto begin = Clock::now();
  peers.start(2);
  REQUIRE(peers.train_within(10));
  std::cout << "training began " << seconds_since(begin) << " s after the last peer was started\n";
  for (std::size_t i = 0; i < 4; ++i) CHECK(peers[i].wait(60) == 0);
}

TEST_CASE("a peer that is started anew while the others wait joins them") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first()}.toml());
  Peers peers(folder, "job.toml", 4);
  for (std::size_t i : {0, 1, 3}) peers.start(i);
  pause(1);
  peers[1].signal(SIGKILL);
  REQUIRE(peers[1].wait(5));
  pause(0.5);
  peers.start(1);
  peers.start(2);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto status = peers[i].wait(60);
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(status == 0);
  }
}

}  // namespace
}  // namespace gossamer::test
