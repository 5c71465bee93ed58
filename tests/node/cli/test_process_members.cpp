// Peers that join a run under way, and peers that can only dial out.
#include <csignal>
#include <iostream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr double kStart_s = 30;
constexpr int kBadInput = 2, kInterrupted = 130;

/// Four peers of a file that train for good, and whoever joins them.
class Open {
 public:
  explicit Open(const std::string& method = "choco", const std::string& codec = "onebit_scaled",
                const std::string& graph = "ring") {
    folder.write("job.toml", SmallJob{4, ports.first(), graph, method, codec, "0", kForever}.toml());
    peers.start_all();
    REQUIRE(peers.train_within(kStart_s));
  }
  std::string address(int peer) const { return "tcp://127.0.0.1:" + std::to_string(ports.first() + peer); }
  Process& join(const std::string& name, int asked, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"peer", "--join", address(asked), "--name", name, "--out", "."};
    words.insert(words.end(), more.begin(), more.end());
    others.push_back(std::make_unique<Process>(folder.path(""), name, words));
    return *others.back();
  }
  /// What a start came to that cannot take part.
  std::string refusal(const std::vector<std::string>& words) {
    std::vector<std::string> all{"peer", "--out", "."};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = gossamer(folder, all);
    CHECK(ended.status == kBadInput);
    return ended.err;
  }

  const Folder folder;
  const Ports ports{5};
  Peers peers{folder, "job.toml", 4};
  std::vector<std::unique_ptr<Process>> others;
};

TEST_CASE("peers that no file names join a run, and all go on with them") {
  const auto [method, codec, graph] =
      GENERATE(std::tuple("choco", "onebit_scaled", "ring"), std::tuple("allreduce", "dense", "full"));
  INFO(method);
  Open run(method, codec, graph);
  const auto begin = Clock::now();
  Process& first = run.join("late", 2);
  CHECK(first.says_within(20, "4 of 4 peers go on, with late that joined"));
  CHECK(!says(first.err(), "no other machine reaches"));
  std::cout << "a newcomer trains after " << seconds_since(begin) << " s under " << method << '\n';
  Process& second = run.join("later", 0, {"job.toml", "-q"});
  for (std::size_t p = 0; p < 4; ++p) CHECK(run.peers[p].says_within(20, "with late, later that joined"));

  // one that joined is killed and joins again
  second.signal(SIGKILL);
  CHECK(run.peers[1].says_within(15, "peer later is gone"));
  Process& again = run.join("later", 3);
  CHECK(again.says_within(20, "peers go on, with late, later that joined"));
  pause(0.5);
  for (std::size_t p = 0; p < 4; ++p) run.peers[p].signal(SIGTERM);
  first.signal(SIGTERM);
  again.signal(SIGTERM);
  for (std::size_t p = 0; p < 4; ++p) CHECK(run.peers[p].wait(20) == kInterrupted);
  CHECK(first.wait(20) == kInterrupted);
  CHECK(again.wait(20) == kInterrupted);
  CHECK(gossamer(run.folder, {"evaluate", "job.toml", run.folder.path("late.safetensors")}).status == 0);
}

TEST_CASE("whoever cannot join is told why") {
  Open run;
  const std::string port = std::to_string(run.ports.first() + 4);
  const std::string nobody =
      run.refusal({"--join", "tcp://127.0.0.1:" + port, "--name", "a", "--join-timeout", "1"});
  CHECK(says(nobody, "no answer within 1 s (run.join_timeout); expected the address of a peer of a run"));
  CHECK(says(
      run.refusal({"--join", "tcp://127.0.0.1:" + port, "--name", "a", "--set", "run.join_timeout=soon"}),
      "run.join_timeout is the string \"soon\"; expected a number above 0 in seconds"));
  CHECK(says(run.refusal({"--join", "tcp://192.0.2.1:" + port, "--name", "a", "--set", "run.insecure=true",
                          "--set", "run.join_timeout=0.2s"}),
             "no answer within 0.2 s"));
  const std::string other =
      run.refusal({"job.toml", "--join", run.address(1), "--name", "a", "--set", "optimizer.batch=8"});
  CHECK(says(other, "the run's job is another one: optimizer.batch: here 8, there 16"));
  CHECK(says(run.refusal({"--join", run.address(1), "--name", "peer2"}),
             "a peer of the name 'peer2' takes part already, at " + run.address(2)));
  CHECK(says(run.refusal({"--join", "127.0.0.1"}), "expected tcp://host:port"));
  for (const std::string& name : {std::string("my laptop"), std::string("../evil"), std::string(65, 'a')})
    CHECK(says(run.refusal({"--join", run.address(1), "--name", name}),
               "expected 1 to 64 letters, digits, dots, underscores or hyphens"));
  CHECK(says(run.refusal({"--name", "a"}), "expected JOB --name NAME, or --join"));
}

TEST_CASE("nobody joins a run whose members may not change") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml",
               SmallJob{2, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 2, {"--set", "run.min_peers=2"});
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  const Ended ended =
      gossamer(folder, {"peer", "--join", "tcp://127.0.0.1:" + std::to_string(ports.first()), "--name", "a"});
  CHECK(ended.status == kBadInput);
  CHECK(says(ended.err, "run.min_peers = 2"));
}

/// A ring of so many, of which the last can only dial out, and maybe the one before it.
std::string ring(const Ports& ports, int peers, int diallers) {
  std::string text = "[graph]\nkind = \"ring\"\n";
  for (int p = 0; p < peers; ++p)
    text +=
        "[[peer]]\nname = \"peer" + std::to_string(p) + "\"\n" +
        (p >= peers - diallers ? std::string("bind = \"\"\n")
                               : "address = \"tcp://127.0.0.1:" + std::to_string(ports.first() + p) + "\"\n");
  std::string job = SmallJob{}.toml();
  job.erase(0, job.find("[model]"));
  return text + job;
}

TEST_CASE("a peer that can only dial out takes part like any other") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", ring(ports, 3, 1));
  const auto ended = gossamer(folder, {"run", "job.toml", "--json"});
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(gossamer(folder, {"topology", "show", "job.toml"}).out.find("warning") == std::string::npos);

  folder.write("two.toml", ring(ports, 3, 2));
  CHECK(says(gossamer(folder, {"topology", "show", "two.toml"}).out,
             "warning: peer1 and peer2 are linked, and both can only dial out"));
  const auto refused = gossamer(folder, {"run", "two.toml"});
  CHECK(refused.status == kBadInput);
  CHECK(says(refused.err, "a link needs one end that can be reached"));
}

TEST_CASE("a peer that can only dial out joins, is missed, and comes back") {
  Open run;
  Process& first = run.join("hidden", 1, {"--address", "none"});
  CHECK(first.says_within(20, "peers go on, with hidden that joined"));
  CHECK(run.peers[3].says_within(5, "with hidden that joined"));
  pause(1);
  CHECK(first.status() == std::nullopt);
  first.signal(SIGKILL);
  CHECK(run.peers[0].says_within(15, "peer hidden is gone"));
  Process& again = run.join("hidden", 2, {"--address", "none"});
  CHECK(again.says_within(20, "peers go on, with hidden that joined"));
}

TEST_CASE("many peers that can only dial out join at once") {
  Open run;
  const auto begin = Clock::now();
  for (int k = 0; k < 16; ++k) run.join("hidden" + std::to_string(k), k % 4, {"--address", "none"});
  for (const auto& hidden : run.others) CHECK(hidden->says_within(30, "peers go on, with "));
  std::cout << "16 peers that dial out train after " << seconds_since(begin) << " s\n";
  CHECK(seconds_since(begin) < 30);
}

}  // namespace
}  // namespace gossamer::test
