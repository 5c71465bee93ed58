#include "support.h"

namespace gossamer::optim::test {
namespace {

/// What loading this text as the training and the test file gives; `spec.label` etc. may be set before.
Data load_csv_text(const std::string& train, const std::string& test, DataSpec spec = {}) {
  const TemporaryDirectory dir;
  spec.format = "csv";
  spec.path = dir.file("train.csv");
  write_plain(spec.path, train);
  if (!test.empty()) {
    spec.test_path = dir.file("test.csv");
    write_plain(spec.test_path, test);
  }
  return load_data(spec);
}

/// The error without the directory: "train.csv:2:3: …".
std::string csv_error(const std::string& train, const std::string& test, const DataSpec& spec = {}) {
  const std::string message = message_of([&] { load_csv_text(train, test, spec); });
  const std::size_t name = std::min(message.find("train.csv"), message.find("test.csv"));
  return name == std::string::npos ? message : message.substr(name);
}

std::vector<float> row_of(const Dataset& data, std::uint32_t row) {
  std::vector<float> x(data.features());
  data.gather({&row, 1}, x);
  return x;
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

}  // namespace

TEST_CASE("csv with and without header and with each separator") {
  for (const std::string& text :
       {std::string("1,2.5,0\n-3e1,+4,2\n"), std::string("a,b,class\n1,2.5,0\n-30,4,2\n"),
        std::string("1;2.5;0\r\n-30;4;2\r\n"), std::string("1\t2.5\t0\n\n-30\t 4 \t2"),
        std::string("\xEF\xBB\xBF\"a\",\"b, c\",class\n\"1\",2.5,\"0\"\n-30,4,2\n")}) {
    INFO(text);
    const Data data = load_csv_text(text, text);
    REQUIRE(data.train->rows() == 2);
    REQUIRE(data.train->features() == 2);
    CHECK(data.train->classes() == 3);
    CHECK(row_of(*data.train, 0) == std::vector<float>{1, 2.5f});
    CHECK(row_of(*data.train, 1) == std::vector<float>{-30, 4});
    CHECK(data.train->label(1) == 2);
    CHECK(data.train->hash() == data.test->hash());
  }
}

TEST_CASE("the label column of csv is chosen by place or name") {
  const std::string text = "y,a,b\n1,10,20\n0,30,40\n";
  for (const char* label : {"first", "0", "y"}) {
    const Data data = load_csv_text(text, text, {.label = label});
    CHECK(row_of(*data.train, 1) == std::vector<float>{30, 40});
    CHECK(data.train->label(0) == 1);
  }
  const Data middle = load_csv_text("1,0,2\n3,1,4\n", "1,0,2\n", {.label = "1"});
  CHECK(row_of(*middle.train, 1) == std::vector<float>{3, 4});
  CHECK(csv_error(text, text, {.label = "z"}).find("found no label column \"z\"") != std::string::npos);
  CHECK(csv_error(text, text, {.label = "3"}).find("found no label column \"3\"") != std::string::npos);
}

TEST_CASE("text labels become classes in the order of first appearance in both files") {
  const Data data = load_csv_text("1,dog\n2,cat\n3,dog\n", "4,cat\n5,bird\n");
  CHECK(data.train->classes() == 3);
  CHECK(data.test->classes() == 3);
  CHECK(data.train->label(0) == 0);
  CHECK(data.train->label(1) == 1);
  CHECK(data.test->label(0) == 1);
  CHECK(data.test->label(1) == 2);
  const Data negative = load_csv_text("1,-1\n2,1\n", "4,1\n");
  CHECK(negative.train->classes() == 2);
  CHECK(negative.test->label(0) == 1);
}

TEST_CASE("without a test file every tenth row is held out") {
  std::string text;
  for (int i = 0; i < 25; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const Data data = load_csv_text(text, "", {.limit = 20});
  CHECK(data.train->rows() == 20);
  REQUIRE(data.test->rows() == 2);
  CHECK(row_of(*data.test, 1)[0] == 19);
  CHECK(row_of(*data.train, 9)[0] == 10);
  CHECK(csv_error("1,0\n2,1\n", "").find("expected at least 10") != std::string::npos);
}

TEST_CASE("csv values are normalised and files may be compressed") {
  const TemporaryDirectory dir;
  write_gz(dir.file("train.csv.gz"), "3,0\n5,1\n");
  const std::string path = dir.file("train.csv.gz");
  const Data data = load_data({.format = "csv", .path = path, .test_path = path, .mean = 1, .scale = 2});
  CHECK(row_of(*data.train, 1)[0] == 2);
}

TEST_CASE("csv errors name file and line and column") {
  const std::string good = "1,2,0\n";
  CHECK(starts_with(csv_error("1,2,0\n3,x4,1\n", good),
                    "train.csv:2:3: found \"x4\", expected a finite number"));
  CHECK(starts_with(csv_error(good, "a,b,c\n\n1,2,0\n1,  ,0\n"), "test.csv:4:"));
  CHECK(starts_with(csv_error("1,2,0\n3,4\n", good), "train.csv:2:1: found 2 fields, expected 3"));
  CHECK(starts_with(csv_error("1,2,0\n3,nan,0\n", good), "train.csv:2:3: "));
  CHECK(starts_with(csv_error("1,2,0\n3,1e999,0\n", good), "train.csv:2:3: "));
  CHECK(starts_with(csv_error("1,2,0\n3,4,\n", good), "train.csv:2:5: found an empty label"));
  CHECK(starts_with(csv_error("1,2,0\n3,\"4,0\n", good), "train.csv:2:3: found a quote"));
  CHECK(starts_with(csv_error("1\n2\n", good), "train.csv:1:1: found 1 field"));
  CHECK(starts_with(csv_error("", good), "train.csv: found no rows"));
  CHECK(starts_with(csv_error("a,b\n", good), "train.csv: found no rows"));
  CHECK(starts_with(csv_error(good, "1,0\n"), "test.csv: found 1 features, expected 2"));
  CHECK(message_of([] {
          load_data({.format = "csv", .path = "/absent.csv"});
        }).find("/absent.csv: cannot be opened") == 0);
}

}  // namespace gossamer::optim::test
