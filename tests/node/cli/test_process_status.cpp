// gossamer status: what a running peer tells whoever asks.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <system_error>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

constexpr double kTrains_s = 30;

std::string at_port(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

/// Listens, and answers nothing.
class Mute {
 public:
  explicit Mute(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd_, 4) != 0)
      throw std::system_error(errno, std::generic_category(), "listen");
  }
  ~Mute() { close(fd_); }
  Mute(const Mute&) = delete;
  Mute& operator=(const Mute&) = delete;

 private:
  int fd_;
};

json status_of(const Folder& folder, int port) {
  const auto told = gossamer(folder, {"status", at_port(port), "--json"});
  INFO(told.err);
  REQUIRE(told.status == 0);
  return json::parse(told.out);
}

TEST_CASE("any peer of a run tells who takes part, and how far it is") {
  const Folder folder;
  const Ports ports(3);
  const std::string min_peers = GENERATE("1", "3");
  INFO("run.min_peers = " << min_peers);
  folder.write("job.toml",
               SmallJob{3, ports.first(), "full", "choco", "onebit_scaled", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 3,
              {"--set", "run.min_peers=" + min_peers, "--set", "run.report_every=0.05"});
  peers.start_all();
  REQUIRE(peers.train_within(kTrains_s));
  REQUIRE(wait_until(kTrains_s, [&] { return !status_of(folder, ports.first()).at("loss").is_null(); }));
  for (int p = 0; p < 3; ++p) {
    const json s = status_of(folder, ports.first() + p);
    INFO(s.dump(1));
    CHECK(s.at("run") == "job");
    CHECK(s.at("peer") == "peer" + std::to_string(p));
    CHECK(s.at("method") == "choco");
    CHECK(s.at("codec").get<std::string>().starts_with("onebit_scaled"));
    CHECK(s.at("graph") == "full");
    CHECK(s.at("training") == true);
    CHECK(s.at("round") > 0);
    CHECK(s.at("share_done") > 0);
    CHECK(s.at("local_health") >= 0);
    CHECK(s.at("peers") == 3);
    REQUIRE(s.at("members").size() == 3);
    for (int q = 0; q < 3; ++q) {
      const json& m = s.at("members")[static_cast<std::size_t>(q)];
      CHECK(m.at("name") == "peer" + std::to_string(q));
      CHECK(m.at("address") == at_port(ports.first() + q));
      CHECK(m.at("status") == "alive");
      CHECK(m.at("in_view") == true);
      CHECK(m.at("neighbour") == (q != p));
      if (q != p) CHECK(m.at("staleness") <= 2);
      if (min_peers == "1") CHECK(m.at("start") > 0);
    }
  }
  const auto table = gossamer(folder, {"status", at_port(ports.first())});
  CHECK(table.status == 0);
  CHECK(says(table.out, "job: choco, onebit_scaled, full; as peer0 sees it\n3 of 3 peers in view "));
  CHECK(says(table.out, "\npeer2            alive "));
  if (min_peers != "1") return;
  peers[2].signal(SIGTERM);
  REQUIRE(peers[0].says_within(kTrains_s, "go on without peer2"));
  const json s = status_of(folder, ports.first());
  CHECK(s.at("members")[2].at("status") == "left");
  CHECK(s.at("members")[2].at("in_view") == false);
  CHECK(says(gossamer(folder, {"status", at_port(ports.first())}).out, "2 of 3 peers in view "));
}

TEST_CASE("a peer that is asked too often answers no more than it may, and trains on") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml",
               SmallJob{2, ports.first(), "full", "choco", "onebit_scaled", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 2, {"--set", "run.min_peers=1"});
  peers.start_all();
  REQUIRE(peers.train_within(kTrains_s));
  const json before = status_of(folder, ports.first());
  std::vector<std::unique_ptr<Process>> askers;
  for (int k = 0; k < 24; ++k)
    askers.push_back(std::make_unique<Process>(
        folder.path(""), "ask" + std::to_string(k),
        std::vector<std::string>{"status", at_port(ports.first()), "--timeout", "0.5"}));
  std::size_t answered = 0;
  for (const auto& asker : askers) {
    REQUIRE(asker->wait(kTrains_s));
    answered += asker->status() == 0;
  }
  CHECK(answered > 0);
  REQUIRE(wait_until(kTrains_s,
                     [&] { return status_of(folder, ports.first()).at("round") > before.at("round"); }));
}

TEST_CASE("what cannot be asked is named") {
  const Folder folder;
  const Ports ports(2);
  const Mute mute(ports.first());
  struct Case {
    std::vector<std::string> words;
    int status;
    std::string says;
  };
  const std::vector<Case> cases{
      {{"status", at_port(ports.first() + 1)}, 1, "nothing listens there"},
      {{"status", at_port(ports.first()), "--timeout", "0.5"}, 1, "what listens there is no peer of a run"},
      {{"status", "127.0.0.1:7001"}, 2, "ADDRESS 127.0.0.1:7001: expected tcp://host:port"},
      {{"status"}, 2, "ADDRESS is required"},
      {{"status", at_port(ports.first()), "--timeout", "0"}, 2, "--timeout"},
  };
  for (const auto& [words, status, expected] : cases) {
    const auto ended = gossamer(folder, words);
    INFO(ended.err);
    CHECK(ended.status == status);
    CHECK(says(ended.err, expected));
    CHECK(ended.seconds < 3);
  }
}

TEST_CASE("a peer that is stopped gives no answer in time") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml",
               SmallJob{2, ports.first(), "full", "choco", "onebit_scaled", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 2, {"--set", "run.min_peers=1"});
  peers.start_all();
  REQUIRE(peers.train_within(kTrains_s));
  peers[0].signal(SIGSTOP);
  const auto ended = gossamer(folder, {"status", at_port(ports.first()), "--timeout", "1"});
  peers[0].signal(SIGCONT);
  INFO(ended.err);
  CHECK(ended.status == 1);
  CHECK((says(ended.err, "no answer within 1 s (--timeout)") || says(ended.err, "is no peer")));
}

}  // namespace
}  // namespace gossamer::test
