// Standardised columns and columns of text.
#include <cmath>
#include <random>

#include "gossamer/optim/sample_stream.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Row = std::vector<float>;

/// Of each sample, ascending.
std::vector<std::uint64_t> first_keys(const SampleStreamSpec& spec) {
  std::vector<std::uint64_t> keys;
  const auto stream = open_samples(spec);
  for (SparseBatch batch; stream->next(100, false, batch);)
    for (std::size_t b = 0; b < batch.size(); ++b)
      keys.push_back(batch.keys()[batch.index()[batch.begins()[b]]]);
  std::sort(keys.begin(), keys.end());
  return keys;
}

/// Mean and variance (over n) of every column.
std::vector<std::pair<double, double>> moments(const Dataset& data) {
  std::vector<std::pair<double, double>> out(data.features());
  for (std::uint32_t r = 0; r < data.rows(); ++r) {
    const Row row = row_of(data, r);
    for (std::size_t c = 0; c < row.size(); ++c) {
      out[c].first += row[c];
      out[c].second += double{row[c]} * row[c];
    }
  }
  for (auto& [mean, square] : out) {
    mean /= static_cast<double>(data.rows());
    square = square / static_cast<double>(data.rows()) - mean * mean;
  }
  return out;
}

const DataSpec kStandard{.standardize = true};
const DataSpec kOneHot{.text_as = "onehot"};

std::string advice(const std::string& what) {
  return what + " (data.text_as = \"onehot\" or \"hash:N\" reads";
}

}  // namespace

TEST_CASE("standardised columns have mean 0 and variance 1 over the training rows, whatever their scale") {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const std::size_t limit : {0, 200}) {
    std::string train, test;
    for (int r = 0; r < 400; ++r) {
      const double x = normal(random);
      // far from 0 and narrow, as points in time are; tiny; huge; a constant
      train += std::to_string(1.7e9 + x) + "," + std::to_string(1e-5 * (3 + x)) + "," +
               std::to_string(1e30 * x) + ",0.1," + std::to_string(r % 2) + "\n";
    }
    const DataSpec spec{.standardize = true, .limit = limit};
    const Data data = load_csv_text(train, "", spec);  // a tenth of the rows is held out
    const auto of = moments(*data.train);
    for (const std::size_t c : {0, 1, 2}) {
      INFO("column " << c << " of " << data.train->rows() << " rows");
      CHECK(std::abs(of[c].first) < 1e-6);
      CHECK(of[c].second == Approx(1).epsilon(1e-5));
    }
    CHECK(of[3] == std::pair(0.0, 0.0));
    // The test rows have other moments: they were not asked.
    CHECK(std::abs(moments(*data.test)[0].first) > 1e-4);
  }
}

TEST_CASE("test rows are standardised by the figures of the training rows") {
  const Data data = load_csv_text("1,7,0\n3,7,1\n", "2,7,0\n7,8,1\n-1,6,1\n", kStandard);
  CHECK(row_of(*data.train, 0) == Row{-1, 0});
  CHECK(row_of(*data.train, 1) == Row{1, 0});
  CHECK(row_of(*data.test, 0) == Row{0, 0});
  CHECK(row_of(*data.test, 1) == Row{5, 0});  // a column that is constant in training says nothing
  CHECK(row_of(*data.test, 2) == Row{-3, 0});
}

TEST_CASE("standardising leaves text alone, and equal files give equal data") {
  DataSpec spec = kStandard;
  spec.text_as = "onehot";
  const std::string train = "1,a,0\n3,b,1\n", test = "5,b,0\n";
  const Data data = load_csv_text(train, test, spec);
  CHECK(row_of(*data.train, 0) == Row{-1, 1, 0});
  CHECK(row_of(*data.test, 0) == Row{3, 0, 1});
  CHECK(load_csv_text(train, test, spec).train->hash() == data.train->hash());
}

TEST_CASE("standardising and a mean or scale contradict each other; a test row may lie too far off") {
  CHECK(starts_with(csv_error("1,0\n", "1,0\n", {.mean = 2, .standardize = true}),
                    "data.mean: found data.standard"));
  CHECK(starts_with(csv_error("1,0\n", "1,0\n", {.scale = 2, .standardize = true}),
                    "data.scale: found data.standard"));
  CHECK(starts_with(csv_error("a,y\n1e-30,0\n2e-30,0\n", "a,y\n1e30,0\n", kStandard),
                    "test.csv: test row 1 has a number in the column \"a\" that is more than 3.4e38"));
  CHECK(csv_error("-3e38,0\n3e38,0\n", "1,0\n", kStandard).find("less the column's first one") !=
        std::string::npos);
}

TEST_CASE("one-hot columns are the training rows' texts in the order of their first appearance") {
  const std::string train = "n,city,y\n1,Rome,0\n2,\"Paris, \"\"FR\"\"\",1\n3,Rome,0\n4,,1\n5,7,1\n";
  const std::string test = "n,city,y\n1,\"Paris, \"\"FR\"\"\",0\n2,Oslo,1\n3,7,1\n";
  const Data data = load_csv_text(train, test, kOneHot);
  REQUIRE(data.train->features() == 4);
  CHECK(row_of(*data.train, 0) == Row{1, 1, 0, 0});
  CHECK(row_of(*data.train, 1) == Row{2, 0, 1, 0});
  CHECK(row_of(*data.train, 2) == Row{3, 1, 0, 0});
  CHECK(row_of(*data.train, 3) == Row{4, 0, 0, 0});  // an empty field is no text
  CHECK(row_of(*data.train, 4) == Row{5, 0, 0, 1});  // numbers are texts there
  REQUIRE(data.test->features() == 4);
  CHECK(row_of(*data.test, 0) == Row{1, 0, 1, 0});
  CHECK(row_of(*data.test, 1) == Row{2, 0, 0, 0});  // the training rows have no Oslo
  CHECK(row_of(*data.test, 2) == Row{3, 0, 0, 1});
}

TEST_CASE("rows that are held out or beyond the limit bring no categories") {
  std::string text;
  for (int r = 0; r < 40; ++r) text += "t" + std::to_string(r) + "," + std::to_string(r % 2) + "\n";
  for (const std::size_t limit : {0, 11}) {
    const Data data = load_csv_text(text, "", {.text_as = "onehot", .limit = limit});
    REQUIRE(data.train->features() == data.train->rows());
    REQUIRE(data.test->features() == data.train->features());
    for (std::uint32_t r = 0; r < data.train->rows(); ++r) CHECK(row_of(*data.train, r)[r] == 1);
    for (std::uint32_t r = 0; r < data.test->rows(); ++r)
      CHECK(row_of(*data.test, r) == Row(data.test->features(), 0.0f));
  }
}

TEST_CASE("hashed texts set one feature each, the same in both files") {
  std::string train, test = "c3,1,0\nunheard of,1,0\n,1,0\n";
  for (int r = 0; r < 200; ++r) train += "c" + std::to_string(r) + ",1," + std::to_string(r % 2) + "\n";
  const Data data = load_csv_text(train, test, {.text_as = "hash:16"});
  REQUIRE(data.train->features() == 17);
  Row hits(16);
  for (std::uint32_t r = 0; r < 200; ++r) {
    const Row row = row_of(*data.train, r);
    CHECK(std::count(row.begin(), row.end() - 1, 1.0f) == 1);
    CHECK(std::count(row.begin(), row.end() - 1, 0.0f) == 15);
    for (std::size_t k = 0; k < 16; ++k) hits[k] += row[k];
  }
  CHECK(*std::min_element(hits.begin(), hits.end()) > 2);  // 12.5 are expected of each
  CHECK(row_of(*data.test, 0) == row_of(*data.train, 3));
  const Row unheard = row_of(*data.test, 1), empty = row_of(*data.test, 2);
  CHECK(std::count(unheard.begin(), unheard.end(), 1.0f) == 2);
  CHECK(std::count(empty.begin(), empty.end(), 1.0f) == 1);
}

TEST_CASE("columns that begin with text are text, unless they are named") {
  const std::string train = "a,b,y\n?,x,0\n7,5,1\n", test = "a,b,y\n1,5,0\n";
  CHECK(starts_with(csv_error(train, test, kOneHot), "train.csv:2:1: found \"?\", expected a finite number"));
  for (const std::vector<std::string>& names : {std::vector<std::string>{"a", "b"}, {"0", "1"}, {"*"}}) {
    const Data data = load_csv_text(train, test, {.text_as = "onehot", .text = names});
    CHECK(row_of(*data.train, 1) == Row{0, 1, 0, 1});
    CHECK(row_of(*data.test, 0) == Row{0, 0, 0, 1});
  }
  const Data codes = load_csv_text("y,zip\n0,10\n1,20\n", "y,zip\n0,20\n",
                                   {.label = "y", .text_as = "onehot", .text = {"1"}});
  CHECK(row_of(*codes.test, 0) == Row{0, 1});
  const auto error = [&](const std::string& name) {
    return csv_error(train, test, {.text_as = "onehot", .text = {name}});
  };
  CHECK(starts_with(error("c"), "train.csv:1:1: data.text: found no column \"c\" among 3 columns"));
  CHECK(starts_with(error("3"), "train.csv:1:1: data.text: found no column \"3\""));
  CHECK(starts_with(error("y"), "train.csv:1:1: data.text: found the label's column \"y\""));
  CHECK(starts_with(error("2"), "train.csv:1:1: data.text: found the label's column \"2\""));
  CHECK(starts_with(error("b"), "train.csv:2:1: found \"?\""));
  CHECK(starts_with(csv_error(train, test, {.text = {"b"}}),
                    "data.text: found columns of text, and data.text_as"));
}

TEST_CASE("files of text have a header where its label is none of those below") {
  const DataSpec first{.label = "first", .text_as = "onehot"};
  const std::string rows = "e,x,s\np,b,s\ne,b,f\n";
  const auto rows_of = [&](const std::string& train, const std::string& test, const DataSpec& spec) {
    const Data data = load_csv_text(train, test, spec);
    return std::pair(data.train->rows(), data.test->rows());
  };
  using Counts = std::pair<std::size_t, std::size_t>;
  CHECK(rows_of(rows, rows, first) == Counts(3, 3));
  CHECK(rows_of(rows, "p,x,f\n", first) == Counts(3, 1));
  CHECK(rows_of("class,cap,odor\n" + rows, "class,cap,odor\n" + rows, first) == Counts(3, 3));
  CHECK(rows_of("class,cap,odor\n" + rows, "p,x,f\n", first) == Counts(3, 1));
  CHECK(rows_of("class,cap,odor\n" + rows, "cap,class,odor\nx,e,s\n",
                {.label = "class", .text_as = "onehot"}) == Counts(3, 1));
  CHECK(rows_of("1,x,s\n0,b,s\n", "1,x,s\n", first) == Counts(2, 1));  // labels that are numbers
  CHECK(rows_of("c,n\nb,1\nd,2\n", "c,n\nb,1\n", {.label = "first", .text_as = "hash:4"}) == Counts(2, 1));
  CHECK(starts_with(csv_error("class,cap\n", rows, first), "train.csv: found no rows"));
}

TEST_CASE("wrong text is refused with its place and with what reads it") {
  const std::string good = "1,a,0\n2,b,1\n";
  CHECK(starts_with(csv_error(good, good), advice("train.csv:1:3: found \"a\", expected a finite number")));
  CHECK(starts_with(csv_error("1,2,0\n1,x4,0\n", good),
                    advice("train.csv:2:3: found \"x4\", expected a finite number")));
  CHECK(csv_error("1,0\n?,0\n", good).find("text_as") == std::string::npos);
  CHECK(starts_with(csv_error(good + "x4,a,0\n", good, kOneHot),
                    "train.csv:3:1: found \"x4\", expected a finite number; name the column in data.text"));
  CHECK(starts_with(csv_error(good, "1,a,0\nx,a,0\n", kOneHot), "test.csv:2:1: found \"x\""));
  CHECK(starts_with(csv_error(good, "1,0\n", kOneHot), "test.csv: found 1 features, expected 2"));
  CHECK(starts_with(csv_error("n,city,y\n1,a,0\n", "n,y\n1,0\n", kOneHot),
                    "test.csv:1:1: found no column \"city\", expected it as in "));
  CHECK(starts_with(csv_error("n,city,y\n1,a,0\n", "n,town,y\n1,a,0\n", kOneHot),
                    "test.csv:1:3: found the column \"town\", expected \"city\""));
  for (const std::string wrong :
       {"hash", "hash:", "hash:1", "hash:-4", "hash:8x", "hash:1048577", "onehot:3"})
    CHECK(message_of([&] { check_text_coding(wrong); }).find("\"" + wrong + "\", expected") !=
          std::string::npos);
  CHECK(offers([] { check_text_coding("onehat"); }, "onehat", "onehot"));
}

TEST_CASE("a column of more than 1024 texts is to be hashed, and wide rows must fit into memory") {
  std::string rows = "id,y\n";
  for (int r = 0; r < 1025; ++r) rows += "t" + std::to_string(r) + "," + std::to_string(r % 2) + "\n";
  const std::string message = csv_error(rows, "id,y\nt1,0\n", kOneHot);
  CHECK(starts_with(message, "train.csv:1026:1: found \"t1024\", the 1025th text of the column \"id\""));
  CHECK(message.find("hash:64") != std::string::npos);
  const std::string most = rows.substr(0, rows.rfind("t1024"));
  CHECK(load_csv_text(most, rows, kOneHot).test->features() == 1024);  // those of test rows do not count
  const DataSpec hashed{.text_as = "hash:1000", .memory = 1024 * 1000 * sizeof(float)};
  CHECK(load_csv_text(rows, "id,y\nt1,0\n", hashed).train->features() == 1000);
  DataSpec small = hashed;
  small.memory -= 1;
  CHECK(
      starts_with(csv_error(rows, "id,y\nt1,0\n", small),
                  "train.csv: found 1000 features (1000 of the text column \"id\"), of which 1024 rows take "
                  "4096000 bytes; expected at most"));
}

TEST_CASE("streams that share a head have its columns, whatever their own text begins with") {
  const TemporaryDirectory dir;
  write_plain(dir.file("train.csv"), "click,zip,x\n1,n/a,2\n0,123,3\n");
  const auto read = [&](const std::string& text, std::vector<std::string> as_text = {}) {
    SampleStreamSpec spec{.format = "csv", .path = dir.file("train.csv"), .label = "click"};
    spec.text = std::move(as_text);
    spec.head = std::make_shared<SampleHead>();
    REQUIRE(note_head(spec));
    const auto train = first_keys(spec);
    write_plain(dir.file("test.csv"), text);
    spec.path = dir.file("test.csv");
    const auto test = first_keys(spec);
    CHECK(std::ranges::includes(train, test));
    return test.size();
  };
  const auto error = [&](const std::string& text, std::vector<std::string> as_text = {}) {
    const std::string message = message_of([&] { read(text, std::move(as_text)); });
    return message.substr(std::min(message.find("test.csv"), message.size()));
  };
  CHECK(read("click,zip,x\n1,123,2\n") == 1);
  CHECK(read("\"click\", \"zip\", \"x\"\n1,123,2\n") == 1);
  CHECK(read("1,123,2\n0,n/a,2\n") == 2);
  CHECK(read("clicked;zip;x\n1;123;2\n") == 1);
  CHECK(read("zip,x,click\n123,2,1\n") == 1);
  CHECK(
      starts_with(error("click,plz,x\n1,a,b\n", {"*"}),
                  "test.csv:1: found the header \"click,plz,x\", expected \"click,zip,x\" or none, as in "));
  CHECK(starts_with(error("1,123\n"), "test.csv:1: found 2 columns, expected 3, as in "));
  CHECK(read("1,123\n1,123,2\n") == 1);  // but for its bad line
  CHECK(read("1,\"123,2\n1,123,2\n") == 1);
  CHECK(starts_with(error("1,123\n1,123\n"), "test.csv:1: found 2 columns, expected 3, as in "));
  CHECK(starts_with(error("1 123 2\n"), "test.csv:1: found 1 columns, expected 3"));
}

}  // namespace gossamer::optim::test
