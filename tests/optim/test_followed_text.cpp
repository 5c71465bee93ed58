// Text that is followed while other programs write, move and replace its files.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
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

}  // namespace gossamer::optim::test
