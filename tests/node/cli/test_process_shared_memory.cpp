// Peers of one machine read each other's large messages where they are.
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

constexpr double kTrained_s = 60;
constexpr const char* kInMemory = "reads large messages in memory";

/// Three peers; a layer is of 300 x 300 weights, of which half a megabyte goes to a neighbour where it is
/// dense.
std::string job(const Ports& ports, const std::string& graph, const std::string& method,
                const std::string& codec, std::size_t rounds, const std::string& more = "") {
  return "peers = 3\nbase_port = " + std::to_string(ports.first()) + "\n[graph]\nkind = \"" + graph +
         "\"\n[model]\nkind = \"mlp\"\nhidden = [300, 300]\n[data]\nformat = "
         "\"synthetic\"\n[optimizer]\nbatch = "
         "8\nlearning_rate = 0.01\n[exchange]\nmethod = \"" +
         method + "\"\ncodec = \"" + codec +
         "\"\n[run]\nevaluate_every = 0\nmin_peers = 1\nrounds = " + std::to_string(rounds) + "\n" + more;
}

/// What three peers learned; in_memory: how many have said that another reads their messages there.
std::vector<std::string> learned(const Folder& folder, const std::vector<std::string>& words,
                                 std::size_t& in_memory) {
  Peers peers(folder, "job.toml", 3, words);
  peers.start_all();
  std::vector<std::string> models;
  for (std::size_t p = 0; p < 3; ++p) {
    const auto status = peers[p].wait(kTrained_s);
    INFO(peers[p].err());
    REQUIRE(status == 0);
    in_memory += says(peers[p].err(), kInMemory) ? 1 : 0;
    models.push_back(tensors(peers.model(p)));
  }
  return models;
}

/// While it lives, programs that are started can write no longer files.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("what is read in memory is what would have been sent") {
  for (const auto& [graph, method, codec] :
       std::vector<std::array<std::string, 3>>{{"full", "allreduce", "dense"},
                                               {"full", "allreduce", "qsgd:bits=8"},
                                               {"ring", "choco", "qsgd:bits=8"},
                                               {"ring", "dpsgd", "dense"}}) {
    INFO(method << " with " << codec);
    const Folder folder;
    const Ports ports(3);
    folder.write("job.toml", job(ports, graph, method, codec, 30));
    std::size_t in_memory = 0, sent = 0;
    const auto models = learned(folder, {}, in_memory);
    CHECK(in_memory == 3);
    CHECK((models == learned(folder, {"--set", "run.shared_memory=false"}, sent)));
    CHECK(sent == 0);
  }
}

TEST_CASE("peers with keys read each other's messages in memory, too") {
  const Folder folder;
  const Ports ports(3);
  std::string allowed;
  for (const std::string name : {"peer0", "peer1", "peer2"}) {
    const Ended made = gossamer(folder, {"keys", "new", name});
    REQUIRE(made.status == 0);
    allowed += "\"" + name + "=" + made.out.substr(0, made.out.find('\n')) + "\", ";
  }
  folder.write("job.toml", job(ports, "ring", "dpsgd", "dense", 30, "[access]\nallow = [" + allowed + "]\n"));
  std::size_t in_memory = 0, sent = 0;
  const auto models = learned(folder, {}, in_memory);
  CHECK(in_memory == 3);
  CHECK((models == learned(folder, {"--set", "run.shared_memory=false"}, sent)));
}

TEST_CASE("those who read a killed peer's memory go on, and so does one that comes back") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", job(ports, "full", "dpsgd", "dense", 1000000));
  Peers peers(folder, "job.toml", 3);
  peers.start_all();
  REQUIRE(peers.train_within(30));
  for (std::size_t p = 0; p < 3; ++p) REQUIRE(peers[p].says_within(20, kInMemory));
  peers[1].signal(SIGKILL);
  for (const std::size_t p : {0, 2}) REQUIRE(peers[p].says_within(20, "2 of 3 peers go on"));
  peers.start(1);
  REQUIRE(peers[1].says_within(60, kInMemory));
  pause(1);
  for (std::size_t p = 0; p < 3; ++p) peers[p].signal(SIGINT);
  for (std::size_t p = 0; p < 3; ++p) {
    const auto status = peers[p].wait(30);
    INFO(peers[p].err());
    CHECK(status == 130);
  }
}

TEST_CASE(
    "where files may not be so long rows and messages are not shared, and a model that is too long is "
    "named") {
  const Folder folder;
  const Ports ports(3);
  folder.write("job.toml", job(ports, "ring", "dpsgd", "dense", 30));
  const auto run = [&](const std::string& out) {
    return gossamer(folder, {"run", "job.toml", "-q", "--set", "data.rows=3000", "--set", "data.features=300",
                             "--out", out});
  };
  const auto whole = run("whole");
  INFO(whole.err);
  REQUIRE(whole.status == 0);
  {
    const FileLimit limit(std::size_t{2} << 20);  // rows are 3.6 MB, the model 0.8
    const auto ended = run("alone");
    INFO(ended.err);
    REQUIRE(ended.status == 0);
  }
  CHECK(says(read_text(folder.path("whole/peers/peer0.log")), kInMemory));
  CHECK_FALSE(says(read_text(folder.path("alone/peers/peer0.log")), kInMemory));
  for (const std::string peer : {"peer0", "peer1", "peer2"})
    CHECK(tensors(folder.path("whole/peers/" + peer + ".safetensors")) ==
          tensors(folder.path("alone/peers/" + peer + ".safetensors")));
  const FileLimit limit(std::size_t{1} << 19);
  const auto ended = run("short");
  INFO(ended.err);
  CHECK(ended.status == 1);
  CHECK(says(ended.err, "safetensors"));
  CHECK(says(ended.err, "File too large"));
}

}  // namespace gossamer::test
