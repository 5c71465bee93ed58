// Peers that die, hang or are told to go: the others name them and end, and no process is left.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr int kLost = 3, kInterrupted = 130;
/// For a loaded machine; the bounds on what the program promises are written out in the tests.
constexpr double kStart_s = 30, kEnd_s = 20;

/// Waits for all but one peer; each must end with status 3 and name that one. Gives the time that the last
/// one took.
double all_others_name(Peers& peers, std::size_t gone, const std::string& word, Clock::time_point since) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (i == gone) continue;
    INFO("peer" << i);
    REQUIRE(peers[i].wait(kEnd_s));
  }
  const double seconds = seconds_since(since);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (i == gone) continue;
    INFO("peer" << i << "\n" << peers[i].err());
    CHECK(peers[i].status() == kLost);
    CHECK(says(peers[i].err(), "gossamer: peer" + std::to_string(i) + ": " + word));
  }
  return seconds;
}

void check_models_load(const Folder& folder, const Peers& peers, std::size_t gone) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (i == gone) continue;
    const auto evaluated = gossamer(folder, {"evaluate", "job.toml", peers.model(i), "--json"});
    INFO(evaluated.err);
    CHECK(evaluated.status == 0);
  }
}

/// A named pipe that holds all that it can.
class FullPipe {
 public:
  explicit FullPipe(const std::string& path) {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd_ >= 0);
    const std::string page(4096, '.');
    while (write(fd_, page.data(), page.size()) > 0) {
    }
  }
  ~FullPipe() { close(fd_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  std::string read() const {  ///< what it holds now
    std::string all, page(4096, '\0');
    for (ssize_t got; (got = ::read(fd_, page.data(), page.size())) > 0;)
      all.append(page, 0, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int fd_;
};

/// Five peers that train for good, and one of them killed.
void kill_one(const std::string& graph, std::size_t victim) {
  const Folder folder;
  const Ports ports(5);
  folder.write("job.toml",
               SmallJob{5, ports.first(), graph, "choco", "onebit_scaled", "0", kForever, 0}.toml());
  Peers peers(folder, "job.toml", 5);
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  pause(0.5);
  const auto killed = Clock::now();
  peers[victim].signal(SIGKILL);
  const std::string name = "peer" + std::to_string(victim);
  const double seconds = all_others_name(peers, victim, "lost peer " + name + " (", killed);
  std::cout << "all others named the killed " << name << " of a " << graph << " after " << seconds << " s\n";
  CHECK(seconds < 3);
  check_models_load(folder, peers, victim);
}

/// Kills what a `run` left behind, if anything, and says how many there were.
std::size_t orphans(const std::vector<pid_t>& children) {
  std::size_t count = 0;
  for (const pid_t pid : children) {
    if (!alive(pid)) continue;
    kill(pid, SIGKILL);
    ++count;
  }
  return count;
}

/// `gossamer run` of four peers that train for good, up to its first lines of metrics.
class EndlessRun {
 public:
  explicit EndlessRun(std::uint64_t min_peers = 1) {
    folder.write(
        "job.toml",
        SmallJob{4, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever, min_peers}.toml());
    run = std::make_unique<Process>(folder.path(""), "run",
                                    std::vector<std::string>{"run", "job.toml", "--json"});
    REQUIRE(wait_until(kStart_s, [&] { return !run->children().empty(); }));
    REQUIRE(wait_until(kStart_s, [&] { return reports() >= 4; }));
    files = run_folder(folder, "job");
    children = run->children();
    REQUIRE(children.size() == 4);
  }
  ~EndlessRun() { orphans(children); }
  std::string log(int peer) const { return read_text(files + "/peers/peer" + std::to_string(peer) + ".log"); }

  const Folder folder;
  const Ports ports{4};
  std::unique_ptr<Process> run;
  std::string files;
  std::vector<pid_t> children;

 private:
  std::size_t reports() const {
    const std::string text = read_text(run_folder(folder, "job") + "/metrics.jsonl");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

void check_all_saved(const EndlessRun& endless) {
  for (const std::string name : {"model", "peers/peer0", "peers/peer1", "peers/peer2", "peers/peer3"}) {
    INFO(name);
    CHECK(gossamer(endless.folder, {"evaluate", "job.toml", endless.files + "/" + name + ".safetensors"})
              .status == 0);
  }
  CHECK(says(read_text(endless.files + "/summary.json"), "test_accuracy"));
}

TEST_CASE("a killed peer of a ring is named by all others") { kill_one("ring", 2); }
TEST_CASE("a killed leaf of a star is named by all others") { kill_one("star", 3); }
TEST_CASE("the killed hub of a star is named by all others") { kill_one("star", 0); }

TEST_CASE("a peer killed under run is started again, and the run goes on") {
  EndlessRun endless;
  kill(endless.children[1], SIGKILL);
  REQUIRE(
      endless.run->says_within(kStart_s, "peer1: killed by signal 9; starting it again in 0.5 s (1 of 5"));
  const auto log_says = [&](int peer, const char* words) {
    return endless.log(peer).find(words) != std::string::npos;
  };
  REQUIRE(wait_until(kStart_s, [&] { return log_says(1, "4 of 4 peers go on"); }));
  for (const int peer : {0, 2, 3}) {
    CHECK(log_says(peer, "peer peer1 is gone"));
    CHECK(log_says(peer, "3 of 4 peers go on without peer1"));
  }
  endless.children = endless.run->children();
  CHECK(endless.children.size() == 4);
  endless.run->signal(SIGINT);
  REQUIRE(endless.run->wait(kEnd_s));
  CHECK(endless.run->status() == kInterrupted);
  check_all_saved(endless);
}

TEST_CASE("a peer killed under run ends the run where none may be lost") {
  EndlessRun endless(0);
  const auto killed = Clock::now();
  kill(endless.children[1], SIGKILL);
  REQUIRE(endless.run->wait(kEnd_s));
  const double seconds = seconds_since(killed);
  std::cout << "run ended " << seconds << " s after one of its peers was killed\n";
  CHECK(seconds < 4);
  INFO(endless.run->err());
  CHECK(endless.run->status() == kLost);
  CHECK(says(endless.run->err(), "gossamer: peer1: killed by signal 9"));
  for (const int peer : {0, 2, 3}) CHECK(says(endless.log(peer), "lost peer peer1 ("));
  CHECK(orphans(endless.children) == 0);
  for (const int peer : {0, 2, 3})
    CHECK(gossamer(endless.folder, {"evaluate", "job.toml",
                                    endless.files + "/peers/peer" + std::to_string(peer) + ".safetensors"})
              .status == 0);
}

TEST_CASE("a run that stands still with all peers alive ends, and each says what it waits for") {
  const Folder folder;
  const Ports ports(2);
  const auto peer = [&](const char* name, int port, int batch) {
    return "[[peer]]\nname = \"" + std::string(name) +
           "\"\naddress = \"tcp://127.0.0.1:" + std::to_string(ports.first() + port) +
           "\"\nbatch = " + std::to_string(batch) + "\n";
  };
  folder.write("job.toml",
               "[graph]\nkind = \"ring\"\n" + peer("quick", 0, 1) + peer("slow", 1, 10'000) +
                   "[model]\nkind = \"mlp\"\nhidden = [512, 512, 512, 512, 512, 512, 512, 512, 512, "
                   "512, 512, 512]\n[data]\nrows = 20000\n"
                   "[run]\nrounds = 3\nstall_timeout = 0.001\nmin_peers = 0\n");
  const auto ended = gossamer(folder, {"run", "job.toml"});
  INFO(ended.err);
  CHECK(ended.status == kLost);
  CHECK(says(ended.err, "quick: stalled in round 0 of 3: no end of a round for "));
  CHECK(says(ended.err, "it was waiting for slow's parcel 0 of round 0"));
  CHECK(says(ended.err, "slow: peer quick left in round 0 of 3; it was computing its own gradient"));
}

TEST_CASE("a stopped peer is named by all others and ends when it goes on") {
  const Folder folder;
  const Ports ports(5);
  folder.write("job.toml",
               SmallJob{5, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever, 0}.toml());
  Peers peers(folder, "job.toml", 5);
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  pause(0.5);
  const auto stopped = Clock::now();
  peers[1].signal(SIGSTOP);
  const double seconds = all_others_name(peers, 1, "lost peer peer1 (", stopped);
  std::cout << "all others named the stopped peer1 of a ring after " << seconds << " s\n";
  CHECK(seconds < 5);
  check_models_load(folder, peers, 1);
  const auto resumed = Clock::now();
  peers[1].signal(SIGCONT);
  REQUIRE(peers[1].wait(kEnd_s));
  std::cout << "the stopped peer ended " << seconds_since(resumed) << " s after it went on\n";
  INFO(peers[1].err());
  CHECK(peers[1].status() == kLost);
}

TEST_CASE("a peer stopped shorter than the silence time-out goes on") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", SmallJob{3, ports.first(), "ring", "choco", "onebit_scaled", "0", 3000}.toml());
  Peers peers(folder, "job.toml", 3);
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  peers[1].signal(SIGSTOP);
  pause(1.5);
  peers[1].signal(SIGCONT);
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(peers[i].wait(60));
    INFO(peers[i].err());
    CHECK(peers[i].status() == 0);
  }
}

TEST_CASE("a peer told to end says so to all others") {
  const Folder folder;
  const Ports ports(5);
  folder.write("job.toml",
               SmallJob{5, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever, 0}.toml());
  Peers peers(folder, "job.toml", 5);
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  pause(0.5);
  const auto told = Clock::now();
  peers[3].signal(SIGTERM);
  const double seconds = all_others_name(peers, 3, "peer peer3 left", told);
  std::cout << "all others named the peer3 that left a ring after " << seconds << " s\n";
  CHECK(seconds < 2);
  REQUIRE(peers[3].wait(kEnd_s));
  CHECK(peers[3].status() == kInterrupted);
  check_models_load(folder, peers, 5);
}

TEST_CASE("Ctrl-C and a hangup end a run with all models saved") {
  const int signal = GENERATE(SIGINT, SIGHUP);
  EndlessRun endless;
  const auto pressed = Clock::now();
  endless.run->signal(signal);
  if (signal == SIGHUP) endless.run->signal(signal);  // from the terminal and from its shell
  REQUIRE(endless.run->wait(kEnd_s));
  std::cout << "run ended " << seconds_since(pressed) << " s after signal " << signal << "\n";
  INFO(endless.run->err());
  CHECK(endless.run->status() == kInterrupted);
  CHECK(says(endless.run->err(), "gossamer: interrupted"));
  CHECK(orphans(endless.children) == 0);
  check_all_saved(endless);
}

TEST_CASE("a hangup ends a peer with its model saved") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml",
               SmallJob{2, ports.first(), "full", "choco", "onebit_scaled", "0", kForever, 0}.toml());
  Peers peers(folder, "job.toml", 2);
  peers.start_all();
  REQUIRE(peers.train_within(kStart_s));
  pause(0.5);
  peers[1].signal(SIGHUP);
  REQUIRE(peers[1].wait(kEnd_s));
  INFO(peers[1].err());
  CHECK(peers[1].status() == kInterrupted);
  check_models_load(folder, peers, 2);
}

TEST_CASE("Ctrl-C while the peers still join ends a run") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first()}.toml());
  Process run(folder.path(""), "run", {"run", "job.toml", "--set", "run.rounds=1000000000"});
  REQUIRE(wait_until(kStart_s, [&] { return run.children().size() == 4; }));
  const auto children = run.children();
  run.signal(SIGINT);
  REQUIRE(run.wait(kEnd_s));
  INFO(run.err());
  CHECK(run.status() == kInterrupted);
  CHECK(orphans(children) == 0);
}

TEST_CASE("a run that is stopped for a while loses no peer") {
  const Folder folder;
  const Ports ports(3);
  SmallJob job{3, ports.first(), "ring", "choco", "onebit_scaled", "0", kForever};
  folder.write("job.toml", job.toml());
  // peer0 reports after every round: the pipe that is not read fills at once
  Process run(folder.path(""), "run", {"run", "job.toml", "--set", "run.evaluate_every=0.01"});
  const auto reports = [&] { return read_text(run_folder(folder, "job") + "/metrics.jsonl").size(); };
  REQUIRE(wait_until(kStart_s, [&] { return run.children().size() == 3; }));
  REQUIRE(wait_until(kStart_s, [&] { return reports() > 1000; }));
  const auto children = run.children();
  run.signal(SIGSTOP);
  pause(8);  // the others would have missed a silent peer after half of that
  for (const pid_t child : children) CHECK(alive(child));
  run.signal(SIGCONT);
  const std::size_t before = reports();
  CHECK(wait_until(kEnd_s, [&] { return reports() > before + 1000; }));
  run.signal(SIGINT);
  REQUIRE(run.wait(kEnd_s));
  INFO(run.err());
  CHECK(run.status() == kInterrupted);
  CHECK(says(run.err(), "interrupted; 3 of 3 peers saved"));
  CHECK(says(read_text(run_folder(folder, "job") + "/summary.json"), "test_accuracy"));
  CHECK(orphans(children) == 0);
}

TEST_CASE("a peer whose standard error is not read trains on") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", SmallJob{2, ports.first()}.toml());
  Peers peers(folder, "job.toml", 2);
  const FullPipe unread(folder.path("peer0.err"));
  peers.start_all();
  REQUIRE(peers[1].wait(kStart_s + kEnd_s));
  INFO(peers[1].err());
  CHECK(peers[1].status() == 0);
  CHECK(wait_until(kEnd_s, [&] { return std::filesystem::exists(peers.model(0)); }));
  const std::string said = unread.read();
  REQUIRE(peers[0].wait(kEnd_s));
  CHECK(peers[0].status() == 0);
  CHECK(says(said + unread.read(), "model saved"));
}

TEST_CASE("a peer whose standard error has gone still prints its summary") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", SmallJob{2, ports.first()}.toml());
  Peers peers(folder, "job.toml", 2);
  {
    const FullPipe gone(folder.path("peer0.err"));
    peers.start_all();
    REQUIRE(peers[1].says_within(kStart_s, "listening"));
  }
  REQUIRE(peers[0].wait(kStart_s + kEnd_s));
  CHECK(peers[0].status() == 0);
  CHECK(says(peers[0].out(), "test accuracy"));
}

TEST_CASE("peers whose run was killed end by themselves") {
  EndlessRun endless;
  const auto killed = Clock::now();
  endless.run->signal(SIGKILL);
  REQUIRE(endless.run->wait(kEnd_s));
  const auto none_left = [&] {
    return std::none_of(endless.children.begin(), endless.children.end(),
                        [](pid_t pid) { return alive(pid); });
  };
  const bool gone = wait_until(10, none_left);
  std::cout << "peers were gone " << seconds_since(killed) << " s after their run was killed\n";
  CHECK(gone);
  CHECK(orphans(endless.children) == 0);
}

}  // namespace
}  // namespace gossamer::test
