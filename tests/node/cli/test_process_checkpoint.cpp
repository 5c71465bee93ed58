// gossamer checkpoint: lists, shows, verifies and prunes what peers have saved.
#include <nlohmann/json.hpp>

#include "checkpoint.h"
#include "gossamer_test/catch.h"
#include "process.h"
#include "states.h"

namespace gossamer::test {
namespace {

using nlohmann::json;
using node::Round;
using Words = std::vector<std::string>;

/// RUN/checkpoints with the rounds that are named, of both peers, in one run.
struct Run {
  explicit Run(std::initializer_list<Round> rounds) {
    for (const Round round : rounds) write("ann", round), write("bob", round);
  }
  void write(const std::string& peer, Round round) {
    const auto layers = node::test::layers_of();
    checkpoints.write(node::test::head_of(peer, round), layers, node::test::state_of(layers, round));
  }
  Ended call(const std::string& command, const Words& words = {}) const {
    Words all{"checkpoint", command, "run"};
    all.insert(all.end(), words.begin(), words.end());
    return gossamer(folder, all);
  }
  json listed() const {
    const Ended ended = call("list", {"--json"});
    REQUIRE(ended.status == 0);
    return json::parse(ended.out);
  }
  std::vector<Round> rounds() const {
    std::vector<Round> rounds;
    const json all = listed();
    for (const json& round : all["rounds"]) rounds.push_back(round["round"]);
    return rounds;
  }
  std::string file(Round round, const std::string& name) const { return checkpoints.path_of(round) / name; }

  const Folder folder;
  node::PosixStorage storage;
  node::CheckpointFolder checkpoints{storage, folder.path("run/checkpoints")};
};

void flip_a_bit(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 4));
}

}  // namespace

TEST_CASE("checkpoints are listed: whose, how large, how good, and what is missing") {
  Run run{10, 13, 21};
  run.write("bob", 30);
  std::ofstream(run.file(30, "ann.json")) << "{}";
  const Ended ended = run.call("list");
  CHECK(ended.status == 0);
  CHECK(says(ended.out, "2 of 2"));
  CHECK(says(ended.out, "accuracy 56.00 %, loss 0.2500; the best"));
  CHECK(says(ended.out, "incomplete: ann missing"));
  CHECK(says(ended.err, "round-000000000030/ann.json: is no manifest of a checkpoint"));
  const json listed = run.listed();
  REQUIRE(listed["rounds"].size() == 4);
  const json& first = listed["rounds"][0];
  CHECK(first["round"] == 10);
  CHECK(first["complete"] == true);
  CHECK(first["peers"] == json{"ann", "bob"});
  CHECK(first["run"] == "0000000000001234");
  CHECK(first["figures"]["accuracy"] == Approx(0.53));
  CHECK(listed["rounds"][1]["best"] == true);
  CHECK(listed["rounds"][3]["missing"] == json{"ann"});
  CHECK(listed["problems"].size() == 1);
  CHECK(gossamer(run.folder, {"checkpoint", "list", "run/checkpoints"}).out == ended.out);
}

TEST_CASE("a checkpoint has the figures of an evaluation since the one before it, or none") {
  const Ports ports(2);
  const Folder folder;
  folder.write("job.toml",
               SmallJob{.peers = 2, .base_port = ports.first(), .graph = "full", .rounds = 150}.toml());
  Words words{"run", "job.toml", "--out", "run", "-q"};
  for (const char* set : {"data.rows=1024", "data.test_rows=64", "optimizer.batch=8", "run.evaluate_every=1",
                          "run.checkpoint_every=20", "run.keep=9"})
    words.insert(words.end(), {"--set", set});
  const Ended run = gossamer(folder, words);  // evaluates after rounds 64 and 128
  INFO(run.err);
  REQUIRE(run.status == 0);
  const json listed = json::parse(gossamer(folder, {"checkpoint", "list", "run", "--json"}).out);
  std::vector<Round> judged;
  for (const json& round : listed["rounds"])
    if (!round["figures"].empty()) judged.push_back(round["round"]);
  CHECK(judged == std::vector<Round>{80, 140});
}

TEST_CASE("a checkpoint is shown: the newest that is complete, another, its job") {
  Run run{10, 20};
  run.write("bob", 30);
  const Ended newest = run.call("show");
  CHECK(newest.status == 0);
  for (const char* words : {"round       20", "2 of 2, complete", "ann.safetensors", "bob.state",
                            "tensor    a", "numbers   control/round", "bytes     data/objective"})
    CHECK(says(newest.out, words));
  const json shown = json::parse(run.call("show", {"30", "--json"}).out);
  CHECK(shown["peer"] == "bob");
  CHECK(shown["files"].size() == 2);
  CHECK(shown["tensors"].size() == 3);
  CHECK(shown["arrays"].size() == 5);
  CHECK(says(run.call("show", {"10", "--job"}).out, "[model]"));
  const Ended none = run.call("show", {"11"});
  CHECK(none.status == 2);
  CHECK(says(none.err, "no checkpoint of round 11; there are 10, 20, 30"));
  CHECK(run.call("show", {"--job", "--json"}).status == 2);
  CHECK(says(run.call("show", {"-1"}).err, "-1: expected a number of 0 or more"));
  const Ended stranger = run.call("show", {"10", "--peer", "an"});
  CHECK(stranger.status == 2);
  CHECK(says(stranger.err, "expected one of ann, bob; did you mean 'ann'?"));
}

TEST_CASE("what is damaged is named") {
  Run run{10, 20};
  const Ended whole = run.call("verify");
  CHECK(whole.status == 0);
  CHECK(says(whole.out, "12 files"));
  flip_a_bit(run.file(10, "ann.state"), 40);
  flip_a_bit(run.file(20, "bob.json"), 40);
  std::filesystem::resize_file(run.file(20, "ann.safetensors"), 50);
  const Ended damaged = run.call("verify");
  CHECK(damaged.status == 1);
  CHECK(damaged.out.empty());
  for (const char* words :
       {"round-000000000010/ann.state: damaged: its bytes are not", "round-000000000020/bob.json: ",
        "round-000000000020/ann.safetensors: damaged: 50 bytes; its manifest says",
        "3 of 4 checkpoints are damaged"})
    CHECK(says(damaged.err, words));
}

TEST_CASE("what need not be kept is removed, and nothing for one that is damaged") {
  Run run{10, 13, 21, 30, 40};
  run.write("ann", 15);
  run.write("ann", 50);
  std::ofstream(run.file(15, ".bob.state.tmp")) << "half";
  const Ended dry = run.call("prune", {"--keep", "2", "--dry-run"});
  CHECK(dry.status == 0);
  for (const char* words : {"would remove round 10 of ann", "would remove round 15 of ann", ".bob.state.tmp",
                            "kept rounds: 40, 30, 13 (the best)"})
    CHECK(says(dry.out, words));
  CHECK(run.rounds().size() == 7);
  flip_a_bit(run.file(40, "ann.state"), 40);
  const Ended pruned = run.call("prune", {"--keep", "1"});
  CHECK(pruned.status == 0);
  CHECK(says(pruned.err, "round-000000000040/ann.state: damaged"));
  CHECK(run.rounds() == std::vector<Round>{13, 30, 40, 50});
  CHECK(run.call("prune", {"--keep", "1"}).status == 0);
  CHECK(run.rounds() == std::vector<Round>{13, 30, 40, 50});
  CHECK(run.call("prune", {"--keep", "0"}).status == 2);
  CHECK(run.call("prune").status == 2);

  Run halves{};
  halves.write("ann", 1);
  CHECK(says(halves.call("prune", {"--keep", "1"}).out, "nothing is removed"));
  CHECK(halves.rounds() == std::vector<Round>{1});
}

TEST_CASE("folders that hold no checkpoints are refused") {
  const Folder folder;
  std::filesystem::create_directories(folder.path("run"));
  for (const char* command : {"list", "show", "verify"}) {
    const Ended missing = gossamer(folder, {"checkpoint", command, "none"});
    CHECK(missing.status == 2);
    CHECK(says(missing.err, "none: no such folder; expected that of a run"));
    const Ended empty = gossamer(folder, {"checkpoint", command, "run"});
    CHECK(empty.status == 2);
    CHECK(says(empty.err, "run: holds no checkpoints; expected folders named round-000000000120"));
  }
}

}  // namespace gossamer::test
