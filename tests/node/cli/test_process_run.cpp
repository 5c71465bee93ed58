// What `gossamer run` prints and leaves behind.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

void check_summary(const json& summary) {
  const std::set<std::string> required{"test_accuracy",
                                       "train_loss",
                                       "seconds",
                                       "steps",
                                       "samples",
                                       "samples_by_peer",
                                       "samples_per_second",
                                       "bytes_sent_per_peer",
                                       "bits_per_parameter",
                                       "consensus_distance",
                                       "peers",
                                       "method",
                                       "codec",
                                       "topology",
                                       "staleness"};
  const auto keys = keys_of(summary);
  for (const auto& key : required) {
    INFO(key);
    CHECK(keys.contains(key));
  }
  CHECK(summary.at("test_accuracy") > 0.8);
  CHECK(summary.at("test_accuracy") <= 1.0);
  CHECK(summary.at("train_loss") > 0.0);
  CHECK(summary.at("seconds") > 0.0);
  CHECK(summary.at("steps") == 400);
  CHECK(summary.at("samples_per_second") > 0.0);
  CHECK(summary.at("bytes_sent_per_peer") > 0.0);
  CHECK(summary.at("bits_per_parameter") > 1.0);
  CHECK(summary.at("bits_per_parameter") < 32.0);  // a small model, so frame headers weigh
  CHECK(summary.at("consensus_distance") >= 0.0);
  CHECK(summary.at("peers") == 4);
  CHECK(summary.at("method") == "choco");
  CHECK(says(summary.at("codec"), "onebit_scaled"));
  CHECK(summary.at("topology") == "ring");
  CHECK(summary.at("staleness") == "0");
}

/// Every line is a report of a known peer with the documented fields; gives the names of the peers.
std::set<std::string> check_metrics(const std::string& text) {
  const std::set<std::string> fields{"event",
                                     "peer",
                                     "time",
                                     "round",
                                     "epoch",
                                     "share_done",
                                     "loss",
                                     "samples_per_second",
                                     "bytes_out_per_second",
                                     "bytes_in_per_second",
                                     "skipped_steps",
                                     "held_back",
                                     "queued_bytes",
                                     "peers",
                                     "staleness"};
  std::set<std::string> peers;
  for (const auto& line : lines_of(text)) {
    INFO(line);
    const json record = json::parse(line);
    auto keys = keys_of(record);
    keys.erase("test_accuracy");
    keys.erase("test_loss");
    CHECK(keys == fields);
    CHECK(record.at("event") == "report");
    peers.insert(record.at("peer").get<std::string>());
    for (const char* number :
         {"time", "round", "epoch", "share_done", "samples_per_second", "bytes_out_per_second", "staleness"})
      CHECK(record.at(number).is_number());
    CHECK(record.at("round") <= 400);
  }
  return peers;
}

std::string small_job(const Folder& folder, const Ports& ports) {
  return folder.write("job.toml",
                      SmallJob{4, ports.first(), "ring", "choco", "onebit_scaled", "0", 400}.toml());
}

TEST_CASE("run prints one JSON object and leaves its files") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  const auto ended = gossamer(folder, {"run", "job.toml", "--json"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const json summary = json::parse(ended.out);  // nothing else stands there
  check_summary(summary);
  const std::string run = run_folder(folder, "job");
  CHECK(check_metrics(read_text(run + "/metrics.jsonl")) ==
        std::set<std::string>{"peer0", "peer1", "peer2", "peer3"});
  CHECK(json::parse(read_text(run + "/summary.json")) == summary);
  for (const char* name : {"peer0", "peer1", "peer2", "peer3"}) {
    CHECK(says(read_text(run + "/peers/" + name + ".log"), "all 4 peers are here; training 400 rounds"));
    CHECK(fs::file_size(run + "/peers/" + name + ".safetensors") > 0);
  }
  const auto evaluated = gossamer(folder, {"evaluate", "job.toml", run + "/model.safetensors", "--json"});
  REQUIRE(evaluated.status == 0);
  CHECK(json::parse(evaluated.out).at("accuracy") == summary.at("test_accuracy"));
  CHECK(json::parse(evaluated.out).at("loss") == summary.at("test_loss"));
}

TEST_CASE("run leaves its files in the folder of --out, and peers count who shares their machine") {
  const Folder folder;
  const Ports ports(4);
  std::string text = SmallJob{4, ports.first(), "ring", "choco", "onebit_scaled", "0", 20}.toml();
  text.erase(0, text.find("[graph]"));  // the peers have addresses that look like four machines'
  std::string peers;
  for (int i = 0; i < 4; ++i)
    peers += "[[peer]]\nname = \"peer" + std::to_string(i) + "\"\naddress = \"tcp://127.0.0." +
             std::to_string(i + 1) + ":" + std::to_string(ports.first() + i) + "\"\n";
  folder.write("job.toml", text + peers);
  const auto ended = gossamer(folder, {"run", "job.toml", "--quiet", "--out", "here/and there"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const std::string run = folder.path("here/and there");
  CHECK_FALSE(fs::exists(folder.path("runs")));
  for (const char* name : {"job.toml", "model.safetensors", "summary.json", "metrics.jsonl"})
    CHECK(fs::file_size(run + "/" + name) > 0);
  for (const char* name : {"peer0", "peer1", "peer2", "peer3"})
    CHECK(says(read_text(run + "/peers/" + name + ".log"),
               "4 of the peers run on this machine; computing with"));
  CHECK(gossamer(folder, {"run", "job.toml", "--out", "job.toml"}).status == 2);
}

TEST_CASE("a simulated run tells whom it was without, and waits as long as it is told to") {
  const Folder folder;
  folder.write("job.toml", SmallJob{3, 7001, "full", "dpsgd", "dense", "0", 40}.toml());
  const auto losses = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"sim", "job.toml", "--quiet", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ended = gossamer(folder, words);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return json::parse(ended.out).at("losses");
  };
  CHECK(losses({}).empty());
  const json crash = losses({"--crash", "peer1@0.05"});
  REQUIRE(crash.size() == 1);
  CHECK(crash[0].at("peer") == "peer1");
  CHECK(crash[0].at("returned").is_null());
  // a message takes longer than the silence that counts as a loss
  const std::vector<std::string> slow{"--bandwidth",  "50kbit", "--set",
                                      "run.rounds=3", "--set",  "model.hidden=[1024]"};
  CHECK_FALSE(losses(slow).empty());
  std::vector<std::string> patient = slow;
  patient.insert(patient.end(), {"--set", "run.silence_timeout=600"});
  CHECK(losses(patient).empty());
}

TEST_CASE("a simulated run's training loss is the honest peers'") {
  const Folder folder;
  folder.write("job.toml", SmallJob{2, 7001, "full", "none", "dense", "0", 40}.toml());
  const auto loss = [&](const std::string& attack) {
    const auto ended =
        gossamer(folder, {"sim", "job.toml", "--quiet", "--json", "--attack", "peer1=" + attack});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return json::parse(ended.out).at("train_loss").get<double>();
  };
  CHECK(loss("label_flip") == loss("zero"));  // peer0 trains alone: nothing of peer1 reaches it
}

TEST_CASE("the job file that a run leaves gives the same again") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  REQUIRE(gossamer(folder,
                   {"run", "job.toml", "--set", "exchange.codec=topk:density=0.2", "--set", "run.rounds=40"})
              .status == 0);
  const std::string first = run_folder(folder, "job");
  fs::rename(first, folder.path("first"));
  const auto again = gossamer(folder, {"run", "first/job.toml", "--json", "--quiet"});
  INFO(again.err);
  REQUIRE(again.status == 0);
  CHECK((tensors(folder.path("first/model.safetensors")) ==
         tensors(run_folder(folder, "job") + "/model.safetensors")));
  CHECK(json::parse(again.out).at("steps") == 40);
  CHECK(says(json::parse(again.out).at("codec"), "topk:density=0.2"));
}

TEST_CASE("run prints a table and is quiet when told to be") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  const auto loud = gossamer(folder, {"run", "job.toml", "--set", "run.rounds=40"});
  REQUIRE(loud.status == 0);
  for (const char* words : {"test accuracy", "bits per parameter", "consensus distance", "ring (4)", "steps"})
    CHECK(says(loud.out, words));
  CHECK(says(loud.err, "4 peers started; files in runs/job-"));
  CHECK(says(loud.err, "model: runs/job-"));
  const auto quiet = gossamer(folder, {"run", "job.toml", "--set", "run.rounds=40", "--quiet"});
  CHECK(quiet.status == 0);
  CHECK(quiet.err.empty());
  CHECK(says(quiet.out, "test accuracy"));
}

TEST_CASE("evaluate takes the mean of the peers' own models") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  const auto ended = gossamer(folder, {"run", "job.toml", "--json", "--quiet", "--set", "run.rounds=40"});
  REQUIRE(ended.status == 0);
  const std::string peers = run_folder(folder, "job") + "/peers/peer";
  const auto evaluated =
      gossamer(folder, {"evaluate", "job.toml", peers + "0.safetensors", peers + "1.safetensors",
                        peers + "2.safetensors", peers + "3.safetensors", "--json"});
  REQUIRE(evaluated.status == 0);
  CHECK(json::parse(evaluated.out).at("loss") == json::parse(ended.out).at("test_loss"));
}

TEST_CASE("a run that diverges ends with status 1 and names gamma, rate and codec") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  const std::vector<std::string> sets{"--set", "exchange.codec=topk:density=0.02",
                                      "--set", "exchange.dense_below=0",
                                      "--set", "exchange.gamma=0.9",
                                      "--set", "optimizer.learning_rate=1e30"};
  for (const char* command : {"run", "sim"}) {
    std::vector<std::string> words{command, "job.toml", "--quiet"};
    words.insert(words.end(), sets.begin(), sets.end());
    const auto ended = gossamer(folder, words);
    INFO(ended.err);
    CHECK(ended.status == 1);
    CHECK(says(ended.err, "exchange.gamma = 0.9 may well diverge"));
    CHECK(says(ended.err, "the run diverged in round "));
    CHECK(says(ended.err,
               "lower optimizer.learning_rate (now 1e+30) or exchange.gamma (now 0.9, by default 0.04)"));
    CHECK(says(ended.err, "codec 'topk:density=0.02"));
  }
}

TEST_CASE("a peer that was started by hand ends with status 1 where it diverges, and the others name it") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  Peers peers(folder, "job.toml", 4, {"--set", "optimizer.learning_rate=1e30"});
  peers.start_all();
  int diverged = 0;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto status = peers[i].wait(60);
    INFO(peers[i].err());
    if (status == 1 && says(peers[i].err(), "the run diverged in round "))
      ++diverged;
    else
      CHECK((status == 3 && says(peers[i].err(), " diverged in round ")));
  }
  CHECK(diverged > 0);
}

TEST_CASE("run writes over nobody's files and leaves a folder free where it never began") {
  const Folder folder;
  const Ports ports(4);
  const std::string job = small_job(folder, ports);
  const std::string before = read_text(job);
  const auto onto = gossamer(folder, {"run", "job.toml", "--out", "."});
  CHECK(onto.status == 2);
  CHECK(says(onto.err, "--out .: holds job.toml already, which the run would write over"));
  CHECK(read_text(job) == before);
  const auto unknown = gossamer(folder, {"run", "job.toml", "--out", "new", "--", "no-such-program"});
  CHECK(unknown.status == 2);
  CHECK(!fs::exists(folder.path("new")));
  folder.write("plain", "no program");
  CHECK(says(gossamer(folder, {"run", "job.toml", "--out", "new", "--", "./plain"}).err,
             "may not be executed"));
  folder.write("broken", "#!/no/such/interpreter\n");
  fs::permissions(folder.path("broken"), fs::perms::owner_all);
  const auto broken = gossamer(folder, {"run", "job.toml", "--out", "new", "--", "./broken"});
  CHECK(says(broken.err, "./broken cannot be started: No such file or directory"));
  const auto silent = gossamer(folder, {"run", "job.toml", "--out", "new", "--", "true"});
  CHECK(silent.status == 1);
  CHECK(says(silent.err, "no program learned anything"));
  const auto run = gossamer(folder, {"run", "job.toml", "--quiet", "--out", "new", "--trace", "/dev/full"});
  INFO(run.err);
  CHECK(run.status == 1);  // the trace is lost, and nothing else
  CHECK(says(run.err, "cannot write /dev/full: No space left on device"));
  CHECK(says(run.out, "test accuracy"));
  CHECK(fs::exists(folder.path("new/model.safetensors")));
}

TEST_CASE("a run's folder is its own while it lives") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  std::vector<std::string> first{"run", "job.toml", "--out", "live", "--set"}, second = first;
  first.push_back("run.rounds=" + std::to_string(kForever));
  second.push_back("optimizer.learning_rate=0.5");
  Process run(folder.path(""), "run", first);
  REQUIRE(wait_until(30, [&] { return fs::exists(folder.path("live/peers/peer3.log")); }));
  const std::string job = read_text(folder.path("live/job.toml"));
  const auto other = gossamer(folder, second);
  CHECK(other.status == 2);
  CHECK(says(other.err, "live: a run is under way in this folder"));
  CHECK(read_text(folder.path("live/job.toml")) == job);
  run.signal(SIGTERM);
  CHECK(run.wait(60) == 130);
}

TEST_CASE("run and sim take a closed standard stream and a file name of any bytes") {
  const Folder folder;
  const Ports ports(4);
  const std::string job = small_job(folder, ports);
  fs::copy_file(job, folder.path("\xff.toml"));
  const auto named = gossamer(folder, {"run", "\xff.toml", "--quiet", "--out=-x"});
  INFO(named.err);
  CHECK(named.status == 0);
  CHECK(fs::exists(folder.path("-x/summary.json")));
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path().string() + "/gossamer";
  for (const char* closed : {"<&-", "2>&-"})
    CHECK(std::system(("cd " + folder.path("") + " && " + program + " run job.toml -q --out run" +
                       std::to_string(closed[0]) + " " + closed + " >/dev/null")
                          .c_str()) == 0);
}

TEST_CASE("time from run to the first step") {
  const Folder folder;
  const Ports ports(4);
  small_job(folder, ports);
  const auto begin = Clock::now();
  Process run(folder.path(""), "run", {"run", "job.toml", "--quiet"});
  const auto log = [&] {
    if (!fs::exists(folder.path("runs"))) return std::string();
    const fs::directory_iterator first(folder.path("runs"));
    return first == fs::directory_iterator() ? std::string()
                                             : read_text(first->path().string() + "/peers/peer0.log");
  };
  CHECK(wait_until(30, [&] { return log().find("training") != std::string::npos; }));
  std::cout << "from the start of run to the first round: " << seconds_since(begin) << " s\n";
  CHECK(run.wait(60) == 0);
}

}  // namespace
}  // namespace gossamer::test
