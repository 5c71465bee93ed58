// Runs that are closed to strangers: real peers with keys, and those who have none, a wrong one, another's, a
// revoked one.
#include <csignal>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr double kStart_s = 30;
constexpr int kBadInput = 2, kInterrupted = 130, kFailure = 1;
using Words = std::vector<std::string>;

std::string new_key(const Folder& folder, const std::string& name, const Words& more = {}) {
  Words words{"keys", "new", name};
  words.insert(words.end(), more.begin(), more.end());
  const Ended made = gossamer(folder, words);
  REQUIRE(made.status == 0);
  return made.out.substr(0, made.out.find('\n'));
}

/// Three peers that train for good, each with a key; an authority may vouch for others.
class Closed {
 public:
  explicit Closed(bool start = true) {
    for (int p = 0; p < 3; ++p) keys.push_back(new_key(folder, "peer" + std::to_string(p)));
    authority = new_key(folder, "lab", {"--authority"});
    write_job("job.toml", {{"peer0", keys[0]}, {"peer1", keys[1]}, {"peer2", keys[2]}});
    if (!start) return;
    peers.start_all();
    REQUIRE(peers.train_within(kStart_s));
  }
  void write_job(const std::string& file, const std::vector<std::pair<std::string, std::string>>& allowed,
                 const std::string& more = "") const {
    std::string access = "[access]\nauthority = \"" + authority + "\"\n" + more + "allow = [";
    for (const auto& [name, key] : allowed) access += "\"" + name + "=" + key + "\", ";
    folder.write(file, SmallJob{3, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever}.toml() +
                           access + "]\n");
  }
  std::string address(std::size_t peer, bool with_key = true) const {
    return "tcp://127.0.0.1:" + std::to_string(ports.first() + peer) + (with_key ? "#" + keys[peer] : "");
  }

  const Folder folder;
  const Ports ports{4};
  std::vector<std::string> keys;
  std::string authority;
  Peers peers{folder, "job.toml", 3};
};

TEST_CASE("peers with keys train, and tell their status to who has one") {
  Closed run;
  const Ended status = gossamer(run.folder, {"status", run.address(1), "--key", "peer0.key"});
  INFO(status.err);
  CHECK(status.status == 0);
  CHECK(says(status.out, "3 of 3 peers in view"));
  const Ended plain = gossamer(run.folder, {"status", run.address(1, false), "--timeout", "2"});
  CHECK(plain.status == kFailure);
  CHECK(says(plain.err, "#PUBLICKEY"));
  CHECK(run.peers[1].says_within(2, "somebody was turned away: it speaks without keys"));
  new_key(run.folder, "eve");
  const Ended stranger =
      gossamer(run.folder, {"status", run.address(1), "--key", "eve.key", "--timeout", "2"});
  CHECK(stranger.status == kFailure);
  CHECK(run.peers[1].says_within(10, "127.0.0.1 was turned away: "));
  const Ended wrong = gossamer(run.folder, {"status", run.address(1, false) + "#" + run.keys[2], "--key",
                                            "peer0.key", "--timeout", "2"});
  CHECK(wrong.status == kFailure);
  CHECK(says(wrong.err, "no peer whose public key is " + run.keys[2]));
  CHECK(run.peers[1].says_within(2, "it takes this peer for one of another public key than " + run.keys[1]));
}

TEST_CASE("a listed peer that speaks in another's name is not heard") {
  Closed run;
  run.peers[1].signal(SIGKILL);
  REQUIRE(run.peers[0].says_within(20, "peer peer1 is gone"));
  // peer2's key in the hands of a program that says it is peer1; its own list has them the other way round
  run.write_job("false.toml", {{"peer0", run.keys[0]}, {"peer1", run.keys[2]}, {"peer2", run.keys[1]}});
  Process impostor(run.folder.path(""), "impostor",
                   {"peer", "false.toml", "--name", "peer1", "--key", "peer2.key", "--out", "."});
  CHECK(run.peers[0].says_within(10, "peer2 speaks in the name of another peer"));
  pause(1);
  CHECK_FALSE(says(run.peers[0].err(), "peers go on, with peer1"));
}

TEST_CASE("a key that is revoked admits nobody, from the next SIGHUP on") {
  Closed run;
  run.write_job("job.toml", {{"peer0", run.keys[0]}, {"peer1", run.keys[1]}, {"peer2", run.keys[2]}},
                "revoked = \"" + run.folder.path("revoked") + "\"\n");
  REQUIRE(gossamer(run.folder, {"keys", "revoke", "revoked", run.keys[2], "--why", "stolen"}).status == 0);
  for (std::size_t p : {0, 1}) run.peers[p].signal(SIGHUP);
  for (std::size_t p : {0, 1}) {
    CHECK(run.peers[p].says_within(5, "SIGHUP: who may speak was read again"));
    CHECK(run.peers[p].says_within(5, "was turned away: its key is revoked (" + run.keys[2]));
    CHECK(run.peers[p].says_within(20, "peer peer2 is gone"));
  }
  run.folder.write("revoked", "nonsense\n");
  run.peers[0].signal(SIGHUP);
  CHECK(run.peers[0].says_within(5, "who may speak stays as it was"));
  for (std::size_t p : {0, 1}) run.peers[p].signal(SIGTERM);
  for (std::size_t p : {0, 1}) CHECK(run.peers[p].wait(20) == kInterrupted);
}

TEST_CASE("a peer that no file names comes in with a certificate, and not without") {
  Closed run;
  const std::string key = new_key(run.folder, "late");
  const Ended without =
      gossamer(run.folder, {"peer", "--join", run.address(0), "--name", "late", "--join-timeout", "2"});
  CHECK(without.status == kBadInput);
  CHECK(says(without.err, "no answer within 2 s"));
  REQUIRE(
      gossamer(run.folder, {"keys", "sign", "lab.key", key, "--name", "late", "--out", "late.cert"}).status ==
      0);
  Process late(run.folder.path(""), "late",
               {"peer", "--join", run.address(0), "--name", "late", "--out", "."});
  CHECK(late.says_within(40, "peers go on, with late that joined"));
  CHECK(run.peers[0].says_within(5, "late (127.0.0.1) is admitted by a certificate until "));
  late.signal(SIGTERM);
  CHECK(late.wait(20) == kInterrupted);
}

TEST_CASE("keys that would not be admitted are refused before anything begins") {
  const Closed run(false);
  const auto refusal = [&](const Words& more, const std::string& job = "job.toml") {
    Words words{"peer", job, "--out", "."};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = gossamer(run.folder, words);
    CHECK(ended.status == kBadInput);
    return ended.err;
  };
  const std::string eve = new_key(run.folder, "eve");
  CHECK(says(refusal({"--name", "peer0", "--key", "eve.key"}), "others would not let this peer in: "));
  CHECK(says(refusal({"--name", "peer0", "--key", "peer1.key"}),
             "is the key of 'peer1'; expected that of 'peer0'"));
  CHECK(says(refusal({"--name", "peer0", "--key", "lab.key"}), "an authority's key; expected a peer's"));
  CHECK(says(refusal({"--name", "peer0", "--key", "none.key"}), "none.key: No such file"));
  run.write_job("two.toml", {{"peer0", run.keys[0]}, {"peer1", run.keys[1]}});
  CHECK(says(refusal({"--name", "peer0"}, "two.toml"), "access.allow lists no key of peer 'peer2'"));
  run.write_job("same.toml", {{"peer0", run.keys[0]}, {"peer1", run.keys[0]}, {"peer2", run.keys[2]}});
  CHECK(says(refusal({"--name", "peer0"}, "same.toml"), "the key of 'peer1' is that of 'peer0' already"));
  run.write_job("short.toml", {{"peer0", "12ab"}});
  CHECK(says(refusal({"--name", "peer0"}, "short.toml"),
             "'peer0': found \"12ab\", 4 characters; expected a public key"));
}

TEST_CASE("plain connections that other machines reach are refused, unless that is meant") {
  const Folder folder;
  const Ports ports(2);
  std::string net = "[graph]\nkind = \"ring\"\n";
  for (int p = 0; p < 2; ++p)
    net += "[[peer]]\nname = \"peer" + std::to_string(p) +
           "\"\naddress = \"tcp://127.0.0.1:" + std::to_string(ports.first() + p) +
           "\"\nbind = \"tcp://*:" + std::to_string(ports.first() + p) + "\"\n";
  std::string job = SmallJob{2, 0, "ring", "choco", "onebit_scaled", "0", 20}.toml();
  job.erase(0, job.find("[model]"));
  folder.write("net.toml", net);
  folder.write("job.toml", "topology = \"net.toml\"\n" + job);
  const Ended refused = gossamer(folder, {"run", "job.toml"});
  CHECK(refused.status == kBadInput);
  CHECK(
      says(refused.err, "where other machines reach it, and nothing says who may speak; expected [access]"));
  CHECK(gossamer(folder, {"run", "job.toml", "--set", "run.insecure=true"}).status == 0);
}

}  // namespace
}  // namespace gossamer::test
