// Wrong starts: each ends at once, with status 2 and a message that says what to do.
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

namespace fs = std::filesystem;
constexpr int kBadInput = 2, kPeerLost = 3;
constexpr double kSoon_s = 10;

/// A folder with a small job.
struct Bench {
  Bench() { folder.write("job.toml", SmallJob{4, ports.first()}.toml()); }
  const Folder folder;
  const Ports ports{4};
};

void refuses(const Folder& folder, const std::vector<std::string>& words,
             const std::vector<std::string>& expected) {
  const auto ended = gossamer(folder, words);
  INFO(ended.err);
  CHECK(ended.status == kBadInput);
  CHECK(ended.out.empty());
  CHECK(ended.seconds < kSoon_s);
  for (const auto& e : expected) CHECK(says(ended.err, e));
}

TEST_CASE("wrong words are refused") {
  const Bench bench;
  refuses(bench.folder, {}, {"gossamer: "});
  refuses(bench.folder, {"rnu", "job.toml"}, {"unknown command 'rnu'", "did you mean 'run'?"});
  refuses(bench.folder, {"run", "job.toml", "--jsn"},
          {"--jsn", "did you mean '--json'?", "gossamer run --help"});
  refuses(bench.folder, {"run"}, {"JOB is required"});
  refuses(bench.folder, {"run", "jbo.toml"}, {"jbo.toml: no such file"});
  refuses(bench.folder, {"peer", "job.toml"}, {"expected JOB --name NAME, or --join"});
  refuses(bench.folder, {"peer", "job.toml", "--name", "peer7"},
          {"--name peer7: no such peer", "peer0, peer1, peer2, peer3"});
  refuses(bench.folder, {"run", "job.toml", "--set", "exchange.codek=dense"}, {"codek", "did you mean"});
  refuses(bench.folder, {"run", "job.toml", "--join-timeout", "soon"}, {"run.join_timeout", "soon"});
  CHECK(!fs::exists(bench.folder.path("runs")));
}

TEST_CASE("what is no number within its limits is refused") {
  const Bench bench;
  const auto nan = [&](std::vector<std::string> words, const std::string& limits) {
    for (const char* number : {"nan", "inf", "-1"}) {
      words.back() = number;
      refuses(bench.folder, words, {std::string(number) + ": expected a number " + limits});
    }
  };
  nan({"probe", "job.toml", "--seconds", ""}, "from 0.01 to 3600");
  nan({"probe", "job.toml", "--timeout", ""}, "from 0.1 to 86400");
  nan({"status", "tcp://127.0.0.1:1", "--timeout", ""}, "from 0.1 to 3600");
  nan({"sim", "--seeds", "1", "--churn", ""}, "from 5 to 1000000");
  nan({"keys", "sign", "authority.key", "KEY", "--name", "a", "--days", ""}, "from 1e-05 to 36525");
  nan({"topology", "advise", "job.toml", "--heterogeneity", ""}, "of 0 or more");
}

TEST_CASE("unsound combinations are refused before anything starts") {
  const Bench bench;
  const auto set = [](std::vector<std::string> overrides) {
    std::vector<std::string> words{"run", "job.toml"};
    for (auto& o : overrides) words.insert(words.end(), {"--set", std::move(o)});
    return words;
  };
  refuses(bench.folder, set({"graph.kind=one_peer_exponential"}),
          {"method 'choco'", "time-varying", "use method 'dpsgd'"});
  refuses(bench.folder, set({"exchange.method=allreduce", "exchange.codec=dense", "exchange.staleness=1"}),
          {"method 'allreduce' needs exchange.staleness = 0"});
  refuses(bench.folder, set({"exchange.method=allreduce"}),
          {"method 'allreduce' with codec 'onebit_scaled", "graph.kind 'full'"});
  refuses(bench.folder, set({"exchange.method=dpsgd", "exchange.codec=onebit"}),
          {"method 'dpsgd'", "do not converge under a lossy codec", "'choco'"});
  refuses(bench.folder, set({"exchange.method=push_sum", "exchange.codec=dense", "exchange.overlap=true"}),
          {"exchange.overlap = true makes no difference to method"});
  refuses(bench.folder, set({"exchange.overlap=true", "exchange.staleness=2"}),
          {"method 'choco' takes exchange.overlap in synchronous rounds only"});
  CHECK(!fs::exists(bench.folder.path("runs")));
}

TEST_CASE("a port in use ends the run with the cause") {
  const Bench bench;
  Peers earlier(bench.folder, "job.toml", 4);
  earlier.start(2);
  REQUIRE(earlier[2].says_within(kSoon_s, "listening on"));
  const std::string address = "tcp://127.0.0.1:" + std::to_string(bench.ports.first() + 2);
  refuses(bench.folder, {"peer", "job.toml", "--name", "peer2"},
          {"cannot listen on " + address, "base_port"});
  const auto ended = gossamer(bench.folder, {"run", "job.toml"});
  INFO(ended.err);
  CHECK(ended.status == kBadInput);
  CHECK(ended.seconds < kSoon_s);
  CHECK(says(ended.err, "gossamer: peer2: cannot listen on " + address));
  CHECK(!says(ended.err, "killed"));  // those that were told to end are no news
}

/// Four gzipped idx files of 28×28 noise.
void write_idx(const Folder& folder, std::uint32_t train_rows, std::uint32_t test_rows) {
  const auto write = [&](const std::string& name, const std::string& bytes) {
    const gzFile file = gzopen(folder.path(name + ".gz").c_str(), "wb");
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
            static_cast<int>(bytes.size()));
    gzclose(file);
  };
  const auto number = [](std::uint32_t n) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(n >> shift & 255));
    return bytes;
  };
  for (const auto& [name, rows] : {std::pair{"train", train_rows}, std::pair{"t10k", test_rows}}) {
    std::string images = number(0x803) + number(rows) + number(28) + number(28),
                labels = number(0x801) + number(rows);
    for (std::uint32_t i = 0; i < rows * 784; ++i) images.push_back(static_cast<char>(i * 2654435761u >> 24));
    for (std::uint32_t i = 0; i < rows; ++i) labels.push_back(static_cast<char>(i % 10));
    write(std::string(name) + "-images-idx3-ubyte", images);
    write(std::string(name) + "-labels-idx1-ubyte", labels);
  }
}

TEST_CASE("data that is missing or cut ends the run with the cause") {
  const Bench bench;
  const std::vector<std::string> words{
      "run",   "job.toml",    "--set", "data.format=idx", "--set", "data.path=" + bench.folder.path("data"),
      "--set", "run.rounds=2"};
  refuses(bench.folder, words, {"gossamer: /", "train-images-idx3-ubyte: no such file"});
  const Folder made;
  write_idx(made, 256, 64);
  fs::copy(made.path(""), bench.folder.path("data"), fs::copy_options::recursive);
  CHECK(gossamer(bench.folder, words).status == 0);
  const std::string images = bench.folder.path("data/train-images-idx3-ubyte.gz");
  fs::resize_file(images, fs::file_size(images) / 2);
  refuses(bench.folder, words, {"gossamer: /", "train-images-idx3-ubyte.gz: truncated"});
}

/// Two peers of different opinion; both must end with status 2 and say this.
void differ(const Bench& bench, const std::string& setting, const std::string& ours,
            const std::string& theirs) {
  Peers peers(bench.folder, "job.toml", 4);
  peers.start(0);
  peers.start(1, {"--set", setting});
  for (std::size_t i : {0, 1}) {
    const auto status = peers[i].wait(kSoon_s);
    INFO(peers[i].err());
    CHECK(status == kBadInput);
    CHECK(says(peers[i].err(), "were not started for the same run"));
    CHECK(says(peers[i].err(), i == 0 ? ours : theirs));
    CHECK(!fs::exists(peers.model(i)));
  }
}

TEST_CASE("peers with different jobs name the key and both values") {
  const Bench bench;
  differ(bench, "optimizer.learning_rate=0.125", "optimizer.learning_rate: here 0.05, there 0.125",
         "optimizer.learning_rate: here 0.125, there 0.05");
  differ(bench, "graph.kind=full", "graph.kind: here \"ring\", there \"full\"",
         "graph.kind: here \"full\", there \"ring\"");
}

TEST_CASE("peers with different data say so") {
  const Bench bench;
  const Folder mine, yours;
  write_idx(mine, 256, 64);
  write_idx(yours, 256, 32);
  Peers peers(bench.folder, "job.toml", 4, {"--set", "data.format=idx"});
  peers.start(0, {"--set", "data.path=" + mine.path("")});
  peers.start(1, {"--set", "data.path=" + yours.path("")});
  for (std::size_t i : {0, 1}) {
    CHECK(peers[i].wait(kSoon_s) == kBadInput);
    CHECK(says(peers[i].err(), "data set hash: here "));
  }
}

TEST_CASE("peers of different sessions say so") {
  const Bench bench;
  Peers peers(bench.folder, "job.toml", 4);
  peers.start(0, {"--session", "1", "--join-timeout", "1"});
  peers.start(1, {"--session", "2", "--join-timeout", "1"});
  for (std::size_t i : {0, 1}) {
    const auto status = peers[i].wait(kSoon_s);
    INFO(peers[i].err());
    CHECK(status == kPeerLost);
    CHECK(says(peers[i].err(), "of another run of this job is there"));
    CHECK(says(peers[i].err(), "--session"));
  }
}

TEST_CASE("a folder that cannot be written is refused at the start") {
  const Bench bench;
  bench.folder.write("file", "");
  refuses(bench.folder, {"peer", "job.toml", "--name", "peer0", "--out", "file/below"}, {"file/below"});
  bench.folder.write("runs", "");  // a file where the folder should be
  refuses(bench.folder, {"run", "job.toml"},
          {"cannot make the folder runs/job-", "run in a folder that can be written"});
}

TEST_CASE("a full disk is named with the file") {
  const Bench bench;
  const std::string full = "No space left on device";
  const auto fill = [&](const std::string& name) {
    fs::create_directories(fs::path(bench.folder.path(name)).parent_path());
    fs::create_symlink("/dev/full", bench.folder.path(name));
  };
  const auto run = [&](const std::string& out, const char* rounds = "run.rounds=5") {
    return gossamer(bench.folder, {"run", "job.toml", "--out", out, "--set", rounds});
  };
  fill("job/job.toml");
  auto ended = run("job");
  CHECK(ended.status == 1);
  CHECK(says(ended.err, "job/job.toml: " + full));
  fill("summary/summary.json");
  ended = run("summary");
  CHECK(ended.status == 1);
  CHECK(says(ended.err, "summary/summary.json: " + full));
  fill("metrics/metrics.jsonl");
  ended = run("metrics");
  CHECK(ended.status == 0);
  CHECK(says(ended.err, "metrics/metrics.jsonl cannot be written: " + full));
  for (const std::string n : {"0", "1", "2", "3"})
    fill("log/peers/peer" + n + ".log");  // which cannot say why
  fs::create_directory(bench.folder.path("log/peers/peer1.safetensors"));
  ended = run("log", "run.rounds=3000");  // for a while, in which nobody may read these logs to their end
  CHECK(ended.status == 0);               // as the others ended well
  CHECK(says(ended.err,
             "gossamer: peer1: log/peers/peer1.safetensors: its temporary file cannot be renamed: "
             "Is a directory"));
  ended = gossamer(bench.folder, {"sim", "job.toml", "--set", "run.rounds=5", "--metrics", "/dev/full"});
  CHECK(ended.status == 1);
  CHECK(says(ended.err, "/dev/full: " + full));
  fill("version.out");
  CHECK(Process(bench.folder.path(""), "version", {"--version"}).wait(kSoon_s) == 1);
  refuses(bench.folder, {"topology", "show", "job.toml", "--svg", "/dev/full"}, {"/dev/full", full});
  refuses(bench.folder, {"topology", "convert", "job.toml", "--to", "graphml", "--out", "/dev/full"},
          {"/dev/full", full});
}

TEST_CASE("a simulation whose model cannot be written is refused before it begins") {
  const Bench bench;
  bench.folder.write("file", "");
  bench.folder.write("model", "precious");
  const auto sim = [](const std::string& model) {
    return std::vector<std::string>{"sim", "job.toml", "--set", "run.rounds=1000000000", "--model", model};
  };
  refuses(bench.folder, sim("no/such/m"), {"no/such/m: ", "No such file or directory", "can be written"});
  refuses(bench.folder, sim("file/m"), {"file/m: ", "Not a directory", "can be written"});
  refuses(bench.folder, sim("/proc/m"), {"/proc/m: ", "can be written"});
  refuses(bench.folder, sim("."), {".: is a folder"});
  fs::create_symlink("/dev/null", bench.folder.path("device"));
  refuses(bench.folder, sim("device"), {"device: is no regular file"});
  fs::create_directory(bench.folder.path("out"));
  fs::create_symlink("/dev/null", bench.folder.path("out/model.safetensors"));
  refuses(bench.folder, {"run", "job.toml", "--out", "out"}, {"out/model.safetensors: is no regular file"});
  Process running(bench.folder.path(""), "sim", sim("model"));
  CHECK(running.says_within(kSoon_s, "virtual"));
  CHECK(read_text(bench.folder.path("model")) == "precious");
  for (const auto& entry : fs::directory_iterator(bench.folder.path("")))
    CHECK(!says(entry.path().filename().string(), "tmp"));
}

TEST_CASE("flags that would do nothing are refused") {
  const Bench bench;
  const auto refused = [&](std::vector<std::string> more, const std::string& words) {
    more.insert(more.begin(), {"sim", "job.toml"});
    refuses(bench.folder, more, {words});
  };
  refused({"--first-seed", "7"}, "--first-seed requires --seeds");
  refused({"--events", "3"}, "--events requires --replay");
  refused({"--churn", "9"}, "--churn is of a swarm; expected --seeds or --replay beside it");
  refused({"--restart", "peer1@0.01"}, "--restart peer1@0.01: 'peer1' has not crashed by then");
  refused({"--crash", "peer1@0.1", "--restart", "peer1@0.05"}, "expected --crash peer1@SECONDS");
  refused({"--crash", "peer2@0.01", "--restart", "peer1@0.05"}, "'peer1' has not crashed by then");
  refused({"--set", "sim.links=mobile", "--latency", "1s"}, "sim.latency makes no difference");
  const std::vector<std::string> advise{"topology", "advise", "job.toml", "--methods", "choco"};
  const auto unsound = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all = advise;
    all.insert(all.end(), more.begin(), more.end());
    refuses(bench.folder, all, {words});
  };
  unsound({"--layers", "7"}, "--layers requires --parameters");
  unsound({"--set", "sim.links=mobile"}, "sim.links = mobile is drawn when a run is simulated");
  unsound({"--set", "sim.speeds=lognormal"}, "expected sim.slow, and --set sim.speeds=equal");
}

TEST_CASE("a peer that never trained leaves an earlier model alone") {
  const Bench bench;
  bench.folder.write("peer0.safetensors", "precious");
  const auto ended =
      gossamer(bench.folder, {"peer", "job.toml", "--name", "peer0", "--out", ".", "--join-timeout", "0.5"});
  CHECK(ended.status == 3);
  CHECK(read_text(bench.folder.path("peer0.safetensors")) == "precious");
}

TEST_CASE("a file that is no model is refused") {
  const Bench bench;
  bench.folder.write("model.safetensors", "no model");
  refuses(bench.folder, {"evaluate", "job.toml", "model.safetensors"}, {"model.safetensors"});
  refuses(bench.folder, {"evaluate", "job.toml", "none.safetensors"}, {"none.safetensors"});
}

}  // namespace
}  // namespace gossamer::test
