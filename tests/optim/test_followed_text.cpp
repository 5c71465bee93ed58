// Text that is followed while other programs write, move and replace its files.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

/// Lines whose first index is their number.
std::string numbered(std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count; ++i) text += "1 " + std::to_string(i) + ":1\n";
  return text;
}

}  // namespace

TEST_CASE("a followed file that takes another's name before that was opened is a file of its own") {
  const TemporaryDirectory folder;
  write_plain(folder.file("a"), numbered(0, 5000));
  write_plain(folder.file("b"), numbered(5000, 100));
  const auto stream = open_samples({.path = folder.path(),
                                    .follow = true,
                                    .patience_s = 0.02,
                                    .threads = 0,
                                    .memory = 1U << 20,
                                    .shuffle = false});
  std::vector<std::uint64_t> got;
  SparseBatch batch;
  const auto read = [&] {
    REQUIRE(stream->next(64, false, batch));
    for (std::size_t b = 0; b < batch.size(); ++b)
      got.push_back(batch.keys()[batch.index()[batch.begins()[b]]]);
  };
  read();  // both are found
  std::filesystem::rename(folder.file("b"), folder.file("b.1"));
  write_plain(folder.file("b"), numbered(5100, 200));
  for (int i = 0; i < 200 && got.size() < 5300; ++i) read();
  for (int i = 0; i < 3; ++i) read();
  std::sort(got.begin(), got.end());
  std::vector<std::uint64_t> all(5300);
  std::iota(all.begin(), all.end(), 0);
  CHECK(got == all);
}

TEST_CASE("the first lines of followed text are none while its file is on its way") {
  const TemporaryDirectory dir;
  std::string lines = "click,zip,x\n";
  for (int i = 0; i < 2000; ++i) lines += "1," + std::to_string(i * i) + ",2\n";
  write_gz(dir.file("whole"), lines);
  std::ifstream in(dir.file("whole"), std::ios::binary);
  const std::string packed(std::istreambuf_iterator<char>(in), {});
  write_plain(dir.file("a"), packed.substr(0, packed.size() / 2));
  SampleStreamSpec spec{.format = "csv", .path = dir.file("a"), .follow = true, .label = "click"};
  spec.head = std::make_shared<SampleHead>();
  CHECK_FALSE(note_head(spec));
  write_plain(dir.file("a"), "click,zip");
  CHECK_FALSE(note_head(spec));
  write_plain(dir.file("a"), packed);
  CHECK(note_head(spec));
}

TEST_CASE("columns of csv samples are the same however much of the text is there at first") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("a.csv"), header = "a,b,y\n";
  std::string rows;
  for (int i = 0; i < 99; ++i) rows += (i < 30 ? "," : "foo,") + std::to_string(i + 1) + ",1\n";
  const auto sum_of = [&](SampleStreamSpec spec, const std::function<void()>& between = {}) {
    spec.format = "csv", spec.label = "y";
    spec.patience_s = 0.02;
    spec.max_bad = 0;
    spec.shuffle = false;
    const auto stream = open_samples(spec);
    std::pair<std::size_t, std::uint64_t> found;  // entries and the sum of their keys
    SparseBatch batch;
    for (int empty = 0; empty < (spec.follow ? 20 : 1) && stream->next(64, false, batch);) {
      if (batch.size() == 0 && empty++ == 0 && between) between();
      for (const std::uint32_t at : batch.index()) ++found.first, found.second += batch.keys()[at];
    }
    return found;
  };
  write_plain(path, header + rows);
  const auto expected = sum_of({.path = path});
  CHECK(expected.first == 99 + 69);
  CHECK(sum_of({.path = path, .memory = 1U << 20}) == expected);
  CHECK(sum_of({.path = path, .follow = true}) == expected);
  write_plain(path, header);
  CHECK(sum_of({.path = path, .follow = true}, [&] { std::ofstream(path, std::ios::app) << rows; }) ==
        expected);
  write_plain(path, header + rows);
  for (const char* first : {"head -1 ", "printf '\n\n\n'; cat ", "printf '\xEF\xBB\xBF\r\n'; cat "}) {
    const bool cut = first[0] == 'h';
    const std::string command =
        cut ? first + path + "; sleep 0.1; tail -n +2 " + path
            : std::string(first).insert(std::string(first).find(';'), "; sleep 0.1") + path;
    CHECK(sum_of({.command = command}) == expected);
  }
}

TEST_CASE("followed csv samples wait until each column has a value; named text columns need none") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("a.csv");
  SampleStreamSpec spec{.format = "csv", .path = path, .follow = true, .patience_s = 0.02, .label = "last"};
  spec.shuffle = false;
  write_plain(path, "7,,1\n8,,1\n");
  SparseBatch batch;
  const auto stream = open_samples(spec);
  CHECK((stream->next(9, false, batch) && batch.size() == 0));
  spec.text = {"1"};
  CHECK((open_samples(spec)->next(9, false, batch) && batch.size() == 2));
  std::ofstream(path, std::ios::app) << "9,a,1\n";
  for (int i = 0; i < 50 && batch.size() != 3; ++i) stream->next(9, false, batch);
  CHECK(batch.size() == 3);
}

TEST_CASE("csv samples of which no more come for long do with the rows that are there") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("a.csv");
  write_plain(path, "7,,1\n8,,1\n9,");
  const bool followed = GENERATE(true, false);
  SampleStreamSpec spec{.format = "csv", .follow = followed, .patience_s = 0.1, .label = "last"};
  (followed ? spec.path : spec.command) = followed ? path : "head -n 2 " + path + "; sleep 7";
  spec.shuffle = false;
  SparseBatch batch;
  const auto stream = open_samples(spec);
  for (int i = 0; i < 100 && batch.size() != 2; ++i) stream->next(2, false, batch);
  CHECK(batch.size() == 2);
}

}  // namespace gossamer::optim::test
