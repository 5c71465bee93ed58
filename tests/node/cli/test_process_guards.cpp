// What is not finite in real data: refused where it is written so, skipped where a step makes it.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

constexpr std::size_t kFeatures = 200;

/// So many rows of two classes; cell (row, column) is what `cell` gives.
std::string csv(std::size_t rows, const std::function<std::string(std::size_t, std::size_t)>& cell) {
  std::string text;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < kFeatures; ++c) text += cell(r, c) + ",";
    text += std::to_string(r % 2) + "\n";
  }
  return text;
}
std::string plain(std::size_t r, std::size_t c) {
  return std::to_string((r % 2 == 0 ? 0.5 : -0.5) + static_cast<double>((r * 7 + c * 3) % 11) / 11 - 0.5);
}

/// Two peers that learn of train.csv in three epochs.
std::string job_toml(const Ports& ports) {
  return "peers = 2\nbase_port = " + std::to_string(ports.first()) + R"(
[graph]
kind = "ring"
[model]
kind = "mlp"
hidden = [16]
[data]
format = "csv"
path = "train.csv"
test_path = "test.csv"
label = "last"
[optimizer]
learning_rate = 0.05
batch = 8
[exchange]
method = "dpsgd"
codec = "dense"
[run]
epochs = 3
)";
}

}  // namespace

TEST_CASE("a row of data that holds NaN or Inf is named when it is read") {
  for (const char* value : {"nan", "inf", "-Infinity"}) {
    const Folder folder;
    const Ports ports(2);
    folder.write("job.toml", job_toml(ports));
    folder.write("train.csv", csv(64, [&](std::size_t r, std::size_t c) {
                   return r == 6 && c == 3 ? value : plain(r, c);
                 }));
    folder.write("test.csv", csv(16, plain));
    const auto ended = gossamer(folder, {"run", "job.toml", "--quiet"});
    INFO(ended.err);
    CHECK(ended.status == 2);
    CHECK(says(ended.err, "train.csv:7"));
    CHECK(says(ended.err, value));
  }
}

TEST_CASE("a row that is too large for a step is skipped in every epoch, and the run learns of the others") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", job_toml(ports));
  folder.write("train.csv", csv(64, [&](std::size_t r, std::size_t c) {
                 return r == 6 ? std::string("3.4e38") : plain(r, c);
               }));
  folder.write("test.csv", csv(16, plain));
  const auto ended =
      gossamer(folder, {"run", "job.toml", "--json", "--out", "out", "--set", "run.memory=1MB"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const json summary = json::parse(ended.out);
  CHECK(summary.at("skipped_steps") == 3);
  CHECK(summary.at("test_accuracy") > 0.9);
  CHECK(summary.at("train_loss") > 0);
  const std::string logs =
      read_text(folder.path("out/peers/peer0.log")) + read_text(folder.path("out/peers/peer1.log"));
  CHECK(says(logs, "skipped the step of round "));
  CHECK(says(read_text(folder.path("out/metrics.jsonl")), "\"skipped_steps\":3"));
  // each peer warns once
  const std::string warning = "warning: this peer takes ";
  const auto first = logs.find(warning), last = logs.rfind(warning);
  CHECK(says(logs, "of memory, and run.memory is 1 MB"));
  CHECK((first != last && logs.find(warning, first + 1) == last));
}

TEST_CASE("parameters that are not finite are saved nowhere") {
  const Folder folder;
  const Ports ports(2);
  folder.write("job.toml", job_toml(ports));
  folder.write("train.csv", csv(64, [](std::size_t, std::size_t) { return std::string("1e30"); }));
  folder.write("test.csv", csv(16, plain));
  for (const char* rounds : {"1", "20"}) {
    const auto ended = gossamer(
        folder, {"run", "job.toml", "--quiet", "--out", "out", "--set", "exchange.method=none", "--set",
                 "optimizer.learning_rate=1e30", "--set", std::string("run.rounds=") + rounds});
    INFO(ended.err);
    CHECK(ended.status == 1);
    CHECK(says(ended.err, "diverged in round "));
    bool told = false;
    for (const std::string peer : {"peer0", "peer1"}) {
      const bool unsaved = static_cast<bool>(
          says(read_text(folder.path("out/peers/" + peer + ".log")), "the model is not saved: "));
      CHECK_FALSE((unsaved && std::filesystem::exists(folder.path("out/peers/" + peer + ".safetensors"))));
      told |= unsaved;
    }
    CHECK(told);
    std::filesystem::remove_all(folder.path("out"));
  }
}

}  // namespace gossamer::test
