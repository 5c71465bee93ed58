// Peers of different hidden sizes as processes: what `gossamer run` leaves, and `gossamer evaluate
// --ensemble`.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

/// Three peers with 6, 8 and 8 hidden units.
std::string unlike_job(const Folder& folder, const Ports& ports) {
  std::string text = R"([graph]
kind = "full"
[model]
kind = "mlp"
hidden = [8]
[data]
rows = 300
test_rows = 200
[optimizer]
batch = 10
[exchange]
method = "ensemble"
codec = "fp16"
local_steps = 10
distill_steps = 10
[run]
rounds = 100
)";
  for (int p = 0; p < 3; ++p)
    text += "[[peer]]\nname = \"peer" + std::to_string(p) +
            "\"\naddress = \"tcp://127.0.0.1:" + std::to_string(ports.first() + p) + "\"\n" +
            (p == 0 ? "hidden = [6]\n" : "");
  return folder.write("job.toml", text);
}

TEST_CASE("heterogeneous peers train as processes, and their ensemble is evaluated from their files") {
  const Folder folder;
  const Ports ports(3);
  unlike_job(folder, ports);
  const auto ended = gossamer(folder, {"run", "job.toml", "--json"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(says(ended.err, "have no average"));
  const json summary = json::parse(ended.out);
  CHECK(summary.at("test_accuracy").is_null());
  CHECK(summary.at("no_average").is_string());
  CHECK(summary.at("peer_accuracy_mean") > 0.6);
  const std::string run = run_folder(folder, "job"), peers = run + "/peers/peer";
  CHECK_FALSE(std::filesystem::exists(run + "/model.safetensors"));

  const std::vector<std::string> files{peers + "0.safetensors", peers + "1.safetensors",
                                       peers + "2.safetensors"};
  const auto evaluate = [&](std::vector<std::string> words) {
    std::vector<std::string> all{"evaluate", "job.toml", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    return gossamer(folder, all);
  };
  const auto together = evaluate({files[0], files[1], files[2], "--ensemble"});
  INFO(together.err);
  REQUIRE(together.status == 0);
  const json ensemble = json::parse(together.out);
  CHECK(ensemble.at("ensemble_accuracy") == summary.at("ensemble_accuracy"));
  CHECK(ensemble.at("vote_accuracy") == summary.at("vote_accuracy"));
  CHECK(ensemble.at("accuracies").size() == 3);
  CHECK(json::parse(evaluate({files[0]}).out).at("accuracy") == ensemble.at("accuracies")[0]);
  CHECK(evaluate({files[1], files[2]}).status == 0);
  const auto mixed = evaluate({files[0], files[1]});
  CHECK(mixed.status == 2);
  CHECK(says(mixed.err, "use --ensemble"));

  const auto simulated = gossamer(folder, {"sim", "job.toml", "--json", "--quiet"});
  REQUIRE(simulated.status == 0);
  CHECK(json::parse(simulated.out).at("ensemble_loss").get<double>() ==
        Approx(summary.at("ensemble_loss").get<double>()).epsilon(1e-5));
}

TEST_CASE("a peer that was given other hidden sizes is named before the first round") {
  const Folder folder;
  const Ports ports(3);
  unlike_job(folder, ports);
  Peers peers(folder, "job.toml", 3, {"--join-timeout", "20"});
  peers.start(0);
  peers.start(1, {"--set", "model.hidden=[9]"});
  CHECK(peers[0].wait(30) == 2);
  CHECK(says(peers[0].err(), "model.hidden: here [8], there [9]"));
}

}  // namespace
}  // namespace gossamer::test
