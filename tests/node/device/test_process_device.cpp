// Peers that compute on a CUDA device, played on the CPU, in processes of their own beside peers on the host.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
constexpr int kFailure = 1, kBadInput = 2;

/// Four peers of a ring in tables of their own, some of which compute on a device.
std::string tables(const Ports& ports, const std::string& job, const std::string& device,
                   const std::vector<std::size_t>& on_device) {
  std::string text = job;
  for (std::size_t p = 0; p < 4; ++p) {
    text += "[[peer]]\nname = \"peer" + std::to_string(p) +
            "\"\naddress = \"tcp://127.0.0.1:" + std::to_string(ports.first() + p) + "\"\n";
    if (std::find(on_device.begin(), on_device.end(), p) != on_device.end())
      text += "device = \"" + device + "\"\n";
  }
  return text;
}

std::string job(const std::string& method, const std::string& codec, std::uint64_t rounds,
                const std::string& graph = "ring") {
  const std::string all = SmallJob{4, 1, graph, method, codec, "0", rounds}.toml();
  return all.substr(all.find("[graph]"));  // without the line for local peers
}

json run(const Folder& folder, const std::string& file, const Process::Environment& environment = {}) {
  const auto ended = gossamer(folder, {"run", file, "--json", "--quiet"}, environment);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return json::parse(ended.out);
}

/// What a peer of a run learned.
std::string model(const Folder& folder, const std::string& run, const std::string& peer) {
  return tensors(folder.path(run + "/peers/" + peer + ".safetensors"));
}

}  // namespace

TEST_CASE("peers on a device and peers on the host train one job as peers on the host do") {
  struct Case {
    const char *method, *codec, *graph;
  };
  Drawn drawn(2);
  for (const auto& [method, codec, graph] :
       {Case{"choco", "onebit_scaled", "ring"}, Case{"allreduce", "dense", "ring"},
        Case{"allreduce", "topk:density=0.1", "full"}, Case{"push_sum", "dense", "ring"},
        Case{"noloco", "dense", "matching"}}) {
    if (!drawn()) continue;
    INFO(method << ", " << codec);
    const Folder folder;
    const Ports ports(4);
    const std::string text = job(method, codec, 60, graph);
    folder.write("host.toml", tables(ports, text, "cpu", {}));
    folder.write("mixed.toml", tables(ports, text, "cuda:0", {1, 3}));
    const json host = run(folder, "host.toml"), mixed = run(folder, "mixed.toml");
    CHECK(mixed.at("steps") == host.at("steps"));
    CHECK(mixed.at("test_accuracy").get<double>() ==
          Approx(host.at("test_accuracy").get<double>()).margin(0.03));
    CHECK(mixed.at("train_loss").get<double>() == Approx(host.at("train_loss").get<double>()).epsilon(0.1));
  }
}

TEST_CASE("the same seed on the same device gives the same bits") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", tables(ports, job("choco", "onebit_scaled", 30), "cuda:0", {0, 1, 2, 3}));
  for (const char* out : {"first", "second"}) {
    const auto ended = gossamer(folder, {"run", "job.toml", "--quiet", "--out", out});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
  }
  CHECK(model(folder, "first", "peer2") == model(folder, "second", "peer2"));
}

TEST_CASE("local peers take the devices found in turn, or the host") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first(), "ring", "dpsgd", "dense", "0", 20}.toml());
  const auto told = [&](const std::string& out, const Process::Environment& environment,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"run", "job.toml", "-q", "--out", out, "--set", "peer.device=auto"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ended = gossamer(folder, words, environment);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    std::vector<std::string> logs;
    for (const char* peer : {"peer0", "peer1", "peer2", "peer3"})
      logs.push_back(read_text(folder.path(out + "/peers/" + peer + ".log")));
    return logs;
  };
  const auto two = told("two", {{"EMULATED_DEVICES", "2"}});
  for (std::size_t p = 0; p < two.size(); ++p)
    CHECK(says(two[p], "device = \"auto\": computes on cuda:" + std::to_string(p % 2)));
  for (const std::string& log : told("none", {{"EMULATED_DEVICES", "0"}}))
    CHECK(says(log, "computes on the host: no usable CUDA device: no CUDA-capable device is detected"));
  for (const std::string& log : told("ensemble", {}, {"--set", "exchange.method=ensemble"}))
    CHECK(says(log, "computes on the host: method 'ensemble' learns from what other models predict"));
}

TEST_CASE("a device that is not there or cannot do the job is refused with the reason") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", tables(ports, job("dpsgd", "dense", 20), "cuda:0", {1}));
  const auto refuses = [&](const std::vector<std::string>& settings, const Process::Environment& environment,
                           const std::vector<std::string>& expected) {
    std::vector<std::string> words{"peer", "job.toml", "--name", "peer1"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const auto ended = gossamer(folder, words, environment);
    INFO(ended.err);
    CHECK(ended.status == kBadInput);
    for (const auto& e : expected) CHECK(says(ended.err, e));
  };
  refuses({}, {{"EMULATED_DEVICES", "0"}},
          {"job.toml:", "peer 'peer1' has device \"cuda:0\"", "no CUDA-capable device is detected",
           "device = \"cpu\""});
  refuses({}, {{"EMULATED_DRIVER", "old"}}, {"CUDA driver version is insufficient for CUDA runtime version"});
  refuses({"peer.device=cuda:3"}, {{"EMULATED_DEVICES", "2"}},
          {"--set peer.device=cuda:3", "found no device cuda:3: there are 2 on this machine"});
  refuses({}, {{"EMULATED_MEMORY", "20000"}}, {"has device \"cuda:0\"", "out of memory"});
  refuses({}, {{"EMULATED_MEMORY", "33560000"}}, {"cannot compute on cuda:0", "out of memory", "parameters"});
  refuses({"exchange.method=ensemble"}, {}, {"method 'ensemble' learns from what other models predict"});
  refuses({"model.kind=quadratic"}, {}, {"model quadratic runs on the host only; on a device: mlp, softmax"});
  refuses({"peer.device=gpu"}, {}, {"found \"gpu\"; expected \"cpu\", \"auto\" or \"cuda:N\""});
}

TEST_CASE("a device that fails in the middle of a run takes its peer along, and no other") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", tables(ports, job("dpsgd", "dense", 400), "cuda:0", {1}));
  const auto start = [&](const std::string& name, const Process::Environment& environment) {
    return std::make_unique<Process>(
        folder.path(""), name, std::vector<std::string>{"peer", "job.toml", "--name", name, "--out", "."},
        environment);
  };
  std::vector<std::unique_ptr<Process>> peers;
  for (std::size_t p = 0; p < 4; ++p)
    peers.push_back(
        start("peer" + std::to_string(p),
              p == 1 ? Process::Environment{{"EMULATED_FAILS_AFTER", "3000"}} : Process::Environment{}));
  REQUIRE(peers[1]->wait(60) == kFailure);
  INFO(peers[1]->err());
  CHECK(says(peers[1]->err(), "an illegal memory access was encountered"));
  CHECK(says(peers[1]->err(), "no model is saved: it went with the device that failed"));
  CHECK_FALSE(fs::exists(folder.path("peer1.safetensors")));
  for (const std::size_t p : {0, 2, 3}) {
    INFO(peers[p]->err());
    CHECK(peers[p]->wait(60) == 0);
  }
}

TEST_CASE("those that join compute where they say; of a machine with devices by their names") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", SmallJob{2, ports.first(), "ring", "dpsgd", "dense", "0", kForever}.toml());
  Peers peers(folder, "job.toml", 2);
  peers.start_all();
  REQUIRE(peers.train_within(30));
  const std::string member = "tcp://127.0.0.1:" + std::to_string(ports.first());
  for (const auto& [name, devices, chosen] :
       {std::tuple("late", "1", "cuda:0"), {"second", "2", "cuda:0"}, {"first", "2", "cuda:1"}}) {
    const Process joining(folder.path(""), name,
                          {"peer", "--join", member, "--name", name, "--set", "peer.device=auto"},
                          {{"EMULATED_DEVICES", devices}});
    INFO(joining.err());
    CHECK(joining.says_within(30, std::string("device = \"auto\": computes on ") + chosen));
    CHECK(joining.says_within(30, "peers are here; training"));
  }
}

TEST_CASE("a run on a device goes on from a checkpoint to the same bits, and on the host as well") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", tables(ports, job("choco", "onebit_scaled", 100), "cuda:0", {0, 1, 2, 3}));
  const auto words = [](const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"run", "job.toml", "-q", "--out", out, "--set", "run.checkpoint_every=20"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto whole = gossamer(folder, words("whole"));
  INFO(whole.err);
  REQUIRE(whole.status == 0);
  Process cut(folder.path(""), "cut", words("cut"));
  REQUIRE(wait_until(60, [&] { return fs::exists(folder.path("cut/checkpoints")) || cut.status(); }));
  cut.signal(SIGTERM);
  REQUIRE(cut.wait(60));
  const auto rest = gossamer(folder, words("rest", {"--resume", "cut"}));
  INFO(rest.err);
  REQUIRE(rest.status == 0);
  CHECK(says(rest.err, "to the same bits"));
  for (const char* peer : {"peer0", "peer1", "peer2", "peer3"})
    CHECK(model(folder, "rest", peer) == model(folder, "whole", peer));
  const auto host = gossamer(folder, words("host", {"--resume", "cut", "--set", "peer.device=cpu"}));
  INFO(host.err);
  CHECK(host.status == 0);
}

TEST_CASE("codecs are measured on a device") {
  const Folder folder;
  const std::vector<std::string> words{"codec", "bench", "--device", "cuda:0", "--size", "4096"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto ended = gossamer(folder, with({"--codec", "onebit_scaled", "--codec", "dense", "--json"}));
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const json table = json::parse(ended.out);
  CHECK(table.at("device") == "cuda:0");
  const json& codecs = table.at("sizes").at(0).at("codecs");
  REQUIRE(codecs.size() == 2);
  CHECK(codecs[0].at("bits_per_entry").get<double>() < 2);
  for (const json& codec : codecs)
    for (const char* operation : {"encode", "decode", "decode_add"})
      CHECK(codec.at(operation).at("gb_per_s").get<double>() > 0);
  const auto refused = gossamer(folder, with({"--codec", "qsgd:coding=elias"}));
  CHECK(refused.status == kBadInput);
  CHECK(says(refused.err, "on the host only"));
  const auto missing = gossamer(folder, {"codec", "bench", "--device", "cuda:7"});
  CHECK(missing.status == kBadInput);
  CHECK(says(missing.err, "--device cuda:7: found no device cuda:7"));
}

}  // namespace gossamer::test
