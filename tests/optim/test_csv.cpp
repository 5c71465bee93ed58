#include "support.h"

namespace gossamer::optim::test {

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

TEST_CASE("text labels become classes in their own order, whatever that of the rows is") {
  const Data data = load_csv_text("1,dog\n2,cat\n3,dog\n4,bird\n", "4,cat\n5,bird\n");
  CHECK(data.train->classes() == 3);
  CHECK(data.test->classes() == 3);
  CHECK(data.train->label(0) == 2);
  CHECK(data.train->label(1) == 1);
  CHECK(data.test->label(0) == 1);
  CHECK(data.test->label(1) == 0);
  const Data negative = load_csv_text("1,1\n2,-1\n", "4,1\n");
  CHECK(negative.train->classes() == 2);
  CHECK(negative.test->label(0) == 1);
}

TEST_CASE("labels that are all numbers are compared by value") {
  const Data data = load_csv_text("1,0.0\n2,2.0\n3,0\n", "4,2\n5,+0e1\n");
  CHECK(data.train->classes() == 3);
  CHECK(data.train->label(0) == data.train->label(2));
  CHECK(data.test->label(0) == 2);
  CHECK(data.test->label(1) == 0);
  const Data halves = load_csv_text("1,10.5\n2,9\n3,-0.5\n", "4,10.50\n5,9.0\n");
  CHECK(halves.train->classes() == 3);
  CHECK(halves.test->label(0) == 2);
  CHECK(halves.test->label(1) == 1);
  CHECK(csv_error("1,0\n2,x\n", "1,0.0\n").find("found the label \"0.0\"") != std::string::npos);
}

TEST_CASE("a test row's label that no training row has is refused with its place") {
  CHECK(starts_with(csv_error("1,dog\n2,cat\n", "4,cat\n5,bird\n"),
                    "test.csv:2:3: found the label \"bird\", which no row of "));
  CHECK(starts_with(csv_error("1,0\n2,1\n", "4,200\n"), "test.csv:1:3: found the label \"200\""));
  CHECK(starts_with(csv_error("1,0\n2,2\n", "4,1\n"), "test.csv:1:3: found the label \"1\""));
}

TEST_CASE("a label column that is there twice, and lines that end with a carriage return alone, are told") {
  const std::string twice = "a,y,b,y\n1,0,2,1\n";
  CHECK(starts_with(csv_error(twice, twice, {.label = "y"}), "train.csv:1:7: found a second column \"y\""));
  CHECK(load_csv_text(twice, twice, {.label = "3"}).train->label(0) == 1);
  CHECK(starts_with(csv_error("a,b\r1,0\r2,1\r", "1,0\n"), "train.csv:1:4: found a carriage return"));
  CHECK(load_csv_text("1,0\r\r\n2,1\r", "1,0\r").train->rows() == 2);
}

TEST_CASE("without a test file a tenth of the rows is held out, by a hash") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "," + std::to_string(i % 10) + "\n";
  const Data data = load_csv_text(text, "");
  REQUIRE(data.train->rows() == 900);
  REQUIRE(data.test->rows() == 100);
  std::vector<float> all;
  std::vector<int> per_label(10);
  for (std::uint32_t r = 0; r < 900; ++r) all.push_back(row_of(*data.train, r)[0]);
  for (std::uint32_t r = 0; r < 100; ++r) {
    all.push_back(row_of(*data.test, r)[0]);
    ++per_label[static_cast<std::size_t>(data.test->label(r))];
    CHECK(static_cast<int>(all.back()) % 10 == data.test->label(r));
  }
  CHECK(std::is_sorted(all.begin(), all.begin() + 900));
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < 1000; ++i) REQUIRE(all[i] == static_cast<float>(i));
  CHECK(*std::min_element(per_label.begin(), per_label.end()) >= 2);  // one label alone in every 10th row
  CHECK(load_csv_text(text, "").test->hash() == data.test->hash());
  CHECK(load_csv_text(text, "", {.seed = 2}).test->hash() != data.test->hash());
  CHECK(csv_error("1,0\n2,1\n", "").find("expected at least 10") != std::string::npos);
}

TEST_CASE("limit draws rows of csv by a hash, in order, and more hold fewer") {
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::to_string(i) + "," + (i < 250 ? "a" : "b") + "\n";
  const auto rows = [&](std::size_t limit) {
    const Data data = load_csv_text(text, "1,a\n", {.limit = limit});
    std::vector<float> values;
    for (std::uint32_t r = 0; r < data.train->rows(); ++r) values.push_back(row_of(*data.train, r)[0]);
    return values;
  };
  const std::vector<float> few = rows(20), more = rows(100);
  CHECK(few.size() == 20);
  CHECK(std::is_sorted(few.begin(), few.end()));
  CHECK(few.back() > 250);
  CHECK(std::includes(more.begin(), more.end(), few.begin(), few.end()));
  CHECK(rows(500).size() == 500);
  CHECK(rows(9999).size() == 500);
}

TEST_CASE("quoted csv fields hold separators, quotes and line breaks") {
  const Data data = load_csv_text(
      "1,\"5\"\" pipe\"\r\n2,\"5\"\" tube\"\r\n3,\"a, b\nc\"\n\"4\" , \"5\"\" pipe\" \n", "1,\"a, b\nc\"\n");
  CHECK(data.train->classes() == 3);
  CHECK(data.train->label(0) == 0);
  CHECK(data.train->label(1) == 1);
  CHECK(data.train->label(3) == 0);
  CHECK(row_of(*data.train, 3)[0] == 4);
  CHECK(data.test->label(0) == 2);
  const std::string good = "1,0\n";
  CHECK(starts_with(csv_error("1,0\n\"1.5\"9,0\n", good),
                    "train.csv:2:6: found \"9\" after the closing quote"));
  CHECK(starts_with(csv_error("1,0\n2,5\" pipe\n", good), "train.csv:2:4: found a quote within a field"));
  // Lines are counted through a field of several.
  CHECK(starts_with(csv_error("1,\"a\nb\"\nx,c\n", good), "train.csv:3:1: found \"x\""));
}

TEST_CASE("csv numbers are what a float holds") {
  const Data data = load_csv_text("1e-400,0\n-1e-400,1\n1e-60,0\n3.4e38,1\n", "1,0\n");
  CHECK(row_of(*data.train, 0)[0] == 0);
  CHECK(row_of(*data.train, 1)[0] == 0);
  CHECK(row_of(*data.train, 2)[0] == 0);
  const std::string good = "1,0\n";
  for (const std::string wrong : {"1e39", "-1e39", "1e400", "-1e999", "inf", "-nan", "0x10", "1e", "+", ""})
    CHECK(starts_with(csv_error("1,0\n" + wrong + ",0\n", good), "train.csv:2:"));
  CHECK(csv_error("1e30,0\n", good, {.scale = 1e-10}).find("expected a number of at most") !=
        std::string::npos);
}

TEST_CASE("what is no header of csv is data, and two headers must agree") {
  const std::string good = "1,2,0\n";
  for (const std::string first : {"nan,nan,0", "NA,NA,0", "1e999,inf,0", "?,,1", "NaN,b,1"})
    CHECK(starts_with(csv_error(first + "\n1,2,0\n", good), "train.csv:1:"));
  CHECK(load_csv_text(",b,y\n1,2,0\n", good).train->rows() == 1);
  CHECK(starts_with(csv_error("a,b,y\n1,2,0\n", "b,a,y\n1,2,0\n"),
                    "test.csv:1:1: found the column \"b\", expected \"a\""));
  CHECK(starts_with(csv_error("a,b,y\n1,2,0\n", "a,b,z\n1,2,0\n"), "test.csv:1:5: found the column \"z\""));
  const Data moved = load_csv_text("a,b,y\n1,2,0\n", "y,a,b\n0,3,4\n", {.label = "y"});
  CHECK(row_of(*moved.test, 0) == std::vector<float>{3, 4});
}

TEST_CASE("csv errors quote little, and what is no text is refused at once") {
  const std::string good = "1,0\n";
  const std::string message = csv_error("1,0\n" + std::string(5 << 20, 'x') + ",0\n", good);
  CHECK(message.size() < 200);
  CHECK(message.find("(5242880 bytes)") != std::string::npos);
  CHECK(csv_error("1,0\na\x01z,0\n", good).find("\"a\\x01z\"") != std::string::npos);
  CHECK(message_of([] {
          load_data({.format = "csv", .path = "/dev/zero"});
        }).find("/dev/zero:1:1: found a zero byte") == 0);
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += "1,0\n";
  CHECK(csv_error(rows, good, {.memory = 8000}).find("bytes of free memory") != std::string::npos);
}

TEST_CASE("a compressed file that breaks off anywhere is refused with the byte") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("train.csv.gz");
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i * i % 97) + "," + std::to_string(i % 3) + "\n";
  write_gz(path, text);
  const auto size = std::filesystem::file_size(path);
  REQUIRE(load_data({.format = "csv", .path = path}).train->rows() == 36);
  for (auto cut = size - 1; cut >= 2; --cut) {
    INFO(cut);
    std::filesystem::resize_file(path, cut);
    CHECK(message_of([&] { load_data({.format = "csv", .path = path}); }) ==
          path + ": truncated: the compressed data breaks off at byte " + std::to_string(cut) +
              ", where it ends; fetch it again");
  }
}

TEST_CASE("what follows a compressed file's first part is another, zeros, or an error that says where") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("train.csv.gz");
  const auto packed = [&](const std::string& text) {
    write_gz(path, text);
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string first = packed("1,0\n2,1\n"), second = packed("3,0\n"), zeros(70000, '\0');
  const DataSpec spec{.format = "csv", .path = path, .test_path = path};
  for (const std::string& between : {std::string(), std::string(1, '\0'), zeros}) {
    write_plain(path, first + between + second + between);
    CHECK(load_data(spec).train->rows() == 3);
  }
  const auto refused = [&](const std::string& content) {
    write_plain(path, content);
    const std::string message = message_of([&] { load_data(spec); });
    INFO(message);
    CHECK(starts_with(message, path + ": damaged compressed data at byte "));
    CHECK(message.find(", in part 2 from byte " + std::to_string(first.size()) + ": ") != std::string::npos);
  };
  std::string damaged = second;
  damaged[0] = 'x';
  refused(first + damaged);
  refused(first + "junk");
  damaged = second;
  damaged[2] = 9;  // no deflate
  refused(first + damaged);
  write_plain(path, first + second.substr(0, 2));
  CHECK(message_of([&] { load_data(spec); }).find("truncated") != std::string::npos);
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
