// Synchronous training gives the same bits however it is run: in processes, in the simulator, by hand in any
// order, with any number of BLAS threads around.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "model_digest.h"
#include "process.h"

namespace gossamer::test {
namespace {

/// Of the models in a folder.
std::string digest(const std::string& job_path, const std::string& models) {
  return fmt::format("{:016x}", node::test::model_digest(node::load_job(job_path), models));
}

/// Trains by `run`; gives the run's folder.
std::string train(const Folder& folder, const Process::Environment& environment = {}) {
  std::filesystem::remove_all(folder.path("runs"));
  const auto ended = gossamer(folder, {"run", "job.toml", "--quiet"}, environment);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return run_folder(folder, "job");
}

/// Simulates; gives the figures, and the mean model in sim.safetensors.
nlohmann::json simulate(const Folder& folder, const Process::Environment& environment = {}) {
  const auto ended =
      gossamer(folder, {"sim", "job.toml", "--quiet", "--json", "--model", "sim.safetensors"}, environment);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return nlohmann::json::parse(ended.out);
}

/// more: stands at the end of [exchange].
void same_as_simulated(SmallJob job, const std::string& more = "") {
  const Folder folder;
  const Ports ports(job.peers);
  job.base_port = ports.first();
  std::string text = job.toml();
  folder.write("job.toml", text.insert(text.find("[run]"), more));
  const std::string run = train(folder);
  const auto simulated = simulate(folder), summary = nlohmann::json::parse(read_text(run + "/summary.json"));
  CHECK(digest(folder.path("job.toml"), run + "/peers") == simulated.at("digest").get<std::string>());
  for (const char* bits : {"bits_per_step", "coded_bits_per_step"}) {
    REQUIRE(summary.contains(bits) == simulated.contains(bits));
    if (summary.contains(bits))
      CHECK(summary[bits].get<double>() == Approx(simulated[bits].get<double>()).epsilon(0.05));
  }
  CHECK((tensors(run + "/model.safetensors") == tensors(folder.path("sim.safetensors"))));
}

TEST_CASE("run and sim give the same bits by choco with onebit_scaled") {
  same_as_simulated({4, 0, "ring", "choco", "onebit_scaled", "0"});
}
TEST_CASE("run and sim give the same bits by choco with qsgd") {
  same_as_simulated({4, 0, "full", "choco", "qsgd:bits=4", "0"});
}
TEST_CASE("run and sim give the same bits by choco with topk") {
  same_as_simulated({5, 0, "star", "choco", "topk:density=0.1", "0"});
}
TEST_CASE("run and sim give the same bits by dpsgd") {
  same_as_simulated({4, 0, "star", "dpsgd", "dense", "0"});
}
TEST_CASE("run and sim give the same bits by dpsgd on a time-varying graph") {
  same_as_simulated({4, 0, "one_peer_exponential", "dpsgd", "dense", "0"});
}
TEST_CASE("run and sim give the same bits by dense allreduce") {
  same_as_simulated({4, 0, "ring", "allreduce", "dense", "0"});
}
TEST_CASE("run and sim give the same bits by allreduce with a codec after dense rounds") {
  same_as_simulated({4, 0, "full", "allreduce", "onebit", "0"}, "dense_rounds = 20\n");
}
TEST_CASE("run and sim give the same bits by allreduce with a codec") {
  same_as_simulated({4, 0, "full", "allreduce", "onebit", "0"});
}
TEST_CASE("run and sim give the same bits by a rule that tolerates a Byzantine peer") {
  same_as_simulated({5, 0, "full", "broadcast", "dense", "0"}, "aggregate = \"nnm+centered_clip:f=1\"\n");
}

TEST_CASE("run and sim give the same bits by outer steps in pieces, used later") {
  const std::string streamed =
      "0\nlocal_steps = 5\nfragments = 2\nouter_delay = 2";  // more keys beside staleness
  same_as_simulated({4, 0, "full", "diloco", "qsgd:bits=4", streamed});
  same_as_simulated({3, 0, "full", "sparse_loco", "topk:density=0.1,values=two_bit", streamed});
  same_as_simulated({5, 0, "matching", "noloco", "dense", streamed});
}
TEST_CASE("run and sim give the same bits without any exchange") {
  same_as_simulated({2, 0, "ring", "none", "dense", "0"});
}

/// Large enough for the linear algebra to share a product out over threads.
std::string large_job(const Ports& ports) {
  std::string all = SmallJob{2, ports.first(), "ring", "choco", "onebit_scaled", "0", 10}.toml();
  all.replace(all.find("hidden = [24]"), 13, "hidden = [256, 128]");
  all.replace(all.find("rows = 1024"), 11, "features = 784\nrows = 1024");
  return all.replace(all.find("batch = 16"), 10, "batch = 128") + "threads = 1\n";
}

TEST_CASE("the environment of the linear algebra does not change the bits") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", large_job(ports));
  const std::string simulated = simulate(folder).at("digest");
  for (const char* threads : {"1", "4"}) {
    const Process::Environment environment{{"OPENBLAS_NUM_THREADS", threads}, {"OMP_NUM_THREADS", threads}};
    CHECK(simulate(folder, environment).at("digest") == simulated);
    CHECK(digest(folder.path("job.toml"), train(folder, environment) + "/peers") == simulated);
  }
}

TEST_CASE("peers started by hand in any order train what run trains") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", SmallJob{4, ports.first()}.toml());
  const std::string expected = digest(folder.path("job.toml"), train(folder) + "/peers");
  for (const auto& order : {std::vector<std::size_t>{3, 0, 2, 1}, {1, 2, 0, 3}}) {
    Peers peers(folder, "job.toml", 4);
    for (const std::size_t i : order) {
      peers.start(i);
      pause(i % 2 == 0 ? 0.7 : 0.05);
    }
    for (std::size_t i = 0; i < peers.size(); ++i) {
      REQUIRE(peers[i].wait(60));
      INFO(peers[i].err());
      CHECK(peers[i].status() == 0);
    }
    CHECK(digest(folder.path("job.toml"), folder.path("")) == expected);
  }
}

}  // namespace
}  // namespace gossamer::test
