// Lines into a pipe that nobody reads for a while.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gossamer_test/catch.h"
#include "line_writer.h"

namespace gossamer::node {
namespace {

struct Pipe {
  Pipe() {
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 4096);
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  void close_reader() { close(std::exchange(ends[0], -1)); }
  std::string read_to_end() {
    std::string text(4096, '\0'), all;
    while (true) {
      const ssize_t got = read(ends[0], text.data(), text.size());
      if (got <= 0) return all;
      all.append(text, 0, static_cast<std::size_t>(got));
    }
  }
  int ends[2] = {-1, -1};
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(text.substr(at, end - at));
  return lines;
}

TEST_CASE("however long lines are, those that are not read take no more than their bound") {
  Pipe pipe;
  LineWriter writer(pipe.ends[1], 1000);
  const std::string mega(std::size_t{1} << 20, '.');
  for (int i = 0; i < 20; ++i) writer.write(mega);
  CHECK(writer.dropped() >= 20 - 1 - LineWriter::kMostBytes / mega.size());
  std::string text;
  std::thread reader([&] { text = pipe.read_to_end(); });
  CHECK(!writer.finish("the last\n"));
  close(std::exchange(pipe.ends[1], -1));
  reader.join();
  CHECK(text.size() <= LineWriter::kMostBytes + mega.size() + 9);
}

TEST_CASE("lines that are not read wait for nobody; the oldest are dropped and counted, the last is not") {
  constexpr std::size_t kLines = 20000, kMost = 100;
  Pipe pipe;
  std::uint64_t dropped = 0;
  std::string text;
  {
    LineWriter writer(pipe.ends[1], kMost);
    for (std::size_t i = 0; i < kLines; ++i) writer.write("line " + std::to_string(i) + '\n');
    dropped = writer.dropped();  // of what no pipe of 4 KiB holds
    CHECK(dropped > kLines / 2);
    std::thread reader([&] { text = pipe.read_to_end(); });
    CHECK(!writer.finish("the last\n"));
    close(std::exchange(pipe.ends[1], -1));
    reader.join();
  }
  const auto lines = lines_of(text);
  CHECK(lines.size() + dropped == kLines + 1);
  REQUIRE(lines.size() > kMost);
  CHECK(lines.back() == "the last");
  for (std::size_t i = 0; i < kMost; ++i)  // the newest, in order
    CHECK(lines[lines.size() - 2 - i] == "line " + std::to_string(kLines - 1 - i));
}

TEST_CASE("a reader that has gone is an error and no SIGPIPE") {
  Pipe pipe;
  pipe.close_reader();
  LineWriter writer(pipe.ends[1], 10);
  writer.write("to nobody");
  CHECK(writer.finish("the last") == std::errc::broken_pipe);
}

}  // namespace
}  // namespace gossamer::node
