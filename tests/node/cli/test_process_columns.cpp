// Jobs on CSV files with columns of text, and of numbers of any scale, by several processes.
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

std::string job_toml(const Ports& ports, const std::string& data) {
  return "peers = 3\nbase_port = " + std::to_string(ports.first()) + R"(
[graph]
kind = "ring"
[model]
kind = "softmax"
[data]
format = "csv"
)" + data +
         R"(
[optimizer]
learning_rate = 0.5
batch = 16
[exchange]
method = "dpsgd"
codec = "dense"
[run]
epochs = 3
)";
}

/// What the run's summary says; its models are evaluated to the same accuracy.
json summary_of(const Folder& folder) {
  const auto ended = gossamer(folder, {"run", "job.toml", "--json", "--out", "out"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  json summary = json::parse(ended.out);
  const auto again = gossamer(folder, {"evaluate", "out/job.toml", "out/model.safetensors", "--json"});
  INFO(again.err);
  REQUIRE(again.status == 0);
  CHECK(json::parse(again.out).at("accuracy") == summary.at("test_accuracy"));
  std::filesystem::remove_all(folder.path("out"));
  return summary;
}

std::string unpacked(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text, block(1U << 16, '\0');
  for (int got = 1; got > 0;) {
    got = gzread(file, block.data(), static_cast<unsigned>(block.size()));
    REQUIRE(got >= 0);
    text.append(block, 0, static_cast<std::size_t>(got));
  }
  gzclose(file);
  return text;
}

/// The lines of a LIBSVM file in which every row has one feature of each attribute, as one text column each.
std::string attributes_as_text(const std::string& path) {
  std::string text;
  std::istringstream lines(unpacked(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    for (words >> word, text += word == "1" ? "poisonous" : "edible"; words >> word;)
      text += ",is " + word.substr(0, word.find(':'));
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("mushrooms are told apart by columns of text") {
  const std::string shared = GOSSAMER_SHARED_DATA "/mushrooms-agaricus";
  if (!std::filesystem::exists(shared)) GOSSAMER_SKIP("no shared/data/mushrooms-agaricus beside the sources");
  const Folder folder;
  const Ports ports(3);
  folder.write("train.csv", attributes_as_text(shared + "/agaricus.train.libsvm.gz"));
  folder.write("test.csv", attributes_as_text(shared + "/agaricus.test.libsvm.gz"));
  for (const std::string coding : {"onehot", "hash:64"}) {
    INFO(coding);
    folder.write("job.toml", job_toml(ports,
                                      "path = \"train.csv\"\ntest_path = \"test.csv\"\nlabel = \"first\"\n"
                                      "text_as = \"" +
                                          coding + "\"\n"));
    CHECK(summary_of(folder).at("test_accuracy") > 0.99);
  }
  const auto refused = gossamer(folder, {"run", "job.toml", "--set", "data.text_as=refuse"});
  CHECK(refused.status == 2);
  CHECK(says(refused.err, "train.csv:2:"));
  CHECK(says(refused.err, "data.text_as"));
}

TEST_CASE("columns of any scale are learned from once they are standardised") {
  const Folder folder;
  const Ports ports(3);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::string rows = "time,share,kind,class\n";
  for (int r = 0; r < 3000; ++r) {
    const double a = normal(random), b = normal(random);
    const bool kind = random() % 2 == 0;
    rows += std::to_string(1.7e9 + 3600 * a) + "," + std::to_string(0.5 + 0.01 * b) +
            (kind ? ",day" : ",night") + "," + (a + b + (kind ? 1 : -1) > 0 ? "yes" : "no") + "\n";
  }
  folder.write("rows.csv", rows);
  const std::string data = "path = \"rows.csv\"\ntext_as = \"onehot\"\n";
  folder.write("job.toml", job_toml(ports, data + "standardize = true\n"));
  CHECK(summary_of(folder).at("test_accuracy") > 0.97);
}

}  // namespace gossamer::test
